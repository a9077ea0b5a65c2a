"""Changes of a deployment: which spec each replica is to be served with now, and which replica may be replaced.

Begin with ``targets.py``.
"""
