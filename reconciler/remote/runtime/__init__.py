"""The managed runtime: getting its parts and building it on a machine. Start with ``managed.py``."""
