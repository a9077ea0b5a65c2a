"""Which nodes get which weights, from where, and when they are removed.

Start with ``distribute.py``.
"""
