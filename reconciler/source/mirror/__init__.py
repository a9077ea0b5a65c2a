"""Follows a remote repository: settings in ``source.yaml``, fetching, and the checks before ``main`` moves.

Start with ``looking.py``: it is one look from beginning to end.
"""
