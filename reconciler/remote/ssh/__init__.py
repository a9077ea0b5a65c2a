"""SSH connections, channels and jump hosts. Start with ``connection.py``."""
