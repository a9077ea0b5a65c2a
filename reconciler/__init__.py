"""A declarative, GitOps-style reconciler for clusters of Macs that serve sharded MLX models."""

__version__ = "0.1.0"
