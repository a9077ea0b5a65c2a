"""Acts: each has a page that shows the commit and the command, and asks once. Start with ``act.py``."""
