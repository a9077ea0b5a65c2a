"""The commands, one module each, in rooms by purpose. Start with ``read/get.py``."""
