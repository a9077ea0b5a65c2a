"""Repairs of the machine that undo themselves unless they are confirmed. Start with ``script.py``."""
