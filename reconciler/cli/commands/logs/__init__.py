"""The command `logs`: reading, merging and following logs. Start with ``logs.py``."""
