"""The decode loop: rank 0 leads every step, and the other ranks follow. Start with ``leader.py``."""
