"""What is run beside the peers themselves."""
