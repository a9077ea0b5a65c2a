"""The tables of the store, one module each. Start with ``groups.py``."""
