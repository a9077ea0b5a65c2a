"""Follows a remote repository: settings in ``source.yaml``, fetching, and the checks before ``main`` moves.

``looking.py`` is one look from beginning to end: start there.
"""
