"""Recovery from faults: diagnosis of a dead group, restart budget, rollback and restarts of machines.

Start with ``diagnose.py``.
"""
