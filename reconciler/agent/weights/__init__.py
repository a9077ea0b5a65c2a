"""Weights and runtimes on a node: fetching, checking and removing them. Start with ``files.py``."""
