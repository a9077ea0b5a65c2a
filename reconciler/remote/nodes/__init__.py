"""Nodes as the controller uses them: on its own machine, or over SSH. Start with ``pool.py``."""
