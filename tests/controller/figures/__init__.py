"""What is kept of the last hours."""
