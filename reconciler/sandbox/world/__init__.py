"""The state of emulated Macs, and its changes. Pure. Start with ``state.py``."""
