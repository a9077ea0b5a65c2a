"""The rank as a process: its configuration, its progress and its end. Start with ``config.py``."""
