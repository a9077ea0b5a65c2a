"""The least rights of a machine: commands for sudo, and rules for connections. Pure. Start with ``protection.py``."""
