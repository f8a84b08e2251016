"""The benches: one verb at a stated size, beside the peers and the limits."""
