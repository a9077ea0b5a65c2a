"""What a person may do at once: a page that shows the commit and the command, and asks once. Start with ``act.py``."""
