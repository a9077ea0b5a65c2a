"""Facts of a cluster in a file."""
