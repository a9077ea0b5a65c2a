"""The ranks of a node: starting them, their shims, their output and leftovers. Start with ``ranks.py``."""
