"""Follows a remote repository beside the loop. ``standing.py`` decides what is told of it, ``following.py`` does it."""
