"""Placement of groups: nodes, order of ranks, split and transport, within memory.

Start with ``place.py``.
"""
