"""Decides which part of a revision comes into force. Pure; the time is an argument.

Start with ``judge.py``: it has the order of the checks for pushes, previews, dry runs, the loop, the remote repository
and the console.
"""
