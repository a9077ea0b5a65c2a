"""The types of statuses, incidents and notifications. Start with ``status.py``."""
