"""Single nodes: their agents, settings, runtimes and leftovers, and which of them a replica may use.

Start with ``eligible.py``.
"""
