"""What people would put between clients and a model instead of the gateway."""
