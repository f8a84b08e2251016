"""What several tests lean on: the fixtures, an independent reader, other processes, real data."""
