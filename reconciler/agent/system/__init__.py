"""The operating system as the agent uses it: processes, files, tools and sockets. Start with ``operating_system.py``."""
