"""Emulated tools of a Mac, with the output of the real ones. Start with ``table.py``."""
