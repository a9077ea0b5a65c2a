"""The input of every decision: the snapshots of a pass, the view of one replica, reservations and deadlines.

Start with ``world.py``, then ``view.py``.
"""
