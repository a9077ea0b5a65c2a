"""Commands that only read. Start with ``get.py``."""
