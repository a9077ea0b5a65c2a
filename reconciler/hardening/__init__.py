"""The least rights of a machine: which commands sudo allows, and who may connect to it. Pure. Start with ``protection.py``."""
