"""What keeps a process running on a machine: the definitions that launchd and systemd read, and the commands for them. Start
with ``definitions.py``."""
