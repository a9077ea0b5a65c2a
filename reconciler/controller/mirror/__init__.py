"""Follows a remote repository next to the loop. ``standing.py`` decides what to report, and ``following.py`` looks."""
