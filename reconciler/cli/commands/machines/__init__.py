"""Commands for machines: adding, draining, restarting and checking them. Start with ``drain.py``."""
