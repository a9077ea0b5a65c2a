"""Limits that several gateways count together, in a Valkey or Redis for this purpose alone.

Read ``script`` first: it describes the data in the store, and decides. ``ledger`` asks it, and falls back to a share of
each limit while the store does not answer.
"""
