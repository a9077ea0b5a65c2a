"""Limits that several gateways count together, in a Valkey or Redis that exists for it.

Read ``script`` first: it says what is kept there, and decides. ``ledger`` asks it, and falls back to a share of each limit
while nobody answers.
"""
