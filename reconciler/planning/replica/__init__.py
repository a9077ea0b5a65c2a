"""One replica, from its first group to its release.

Start with ``ladder.py``, the list of rules.
"""
