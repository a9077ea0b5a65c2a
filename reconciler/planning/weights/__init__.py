"""Distribution of weights: which nodes get them, from where, and when they are removed.

Start with ``distribute.py``.
"""
