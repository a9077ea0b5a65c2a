"""Commands that run, stop, back up or emulate a cluster. Start with ``up.py``."""
