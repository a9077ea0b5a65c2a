"""Where a group goes: nodes, order of ranks, split and transport, within memory.

Start with ``place.py``.
"""
