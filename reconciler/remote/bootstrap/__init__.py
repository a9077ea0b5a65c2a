"""Plans for setting up a machine: its profile, its service and every action. Start with ``actions.py``."""
