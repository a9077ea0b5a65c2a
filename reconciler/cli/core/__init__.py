"""Code that all commands share: settings, the connection to the controller, commits. Start with ``app.py``."""
