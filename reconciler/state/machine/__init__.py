"""Facts about a machine: hardware, cables, runtimes and weights. Start with ``facts.py``."""
