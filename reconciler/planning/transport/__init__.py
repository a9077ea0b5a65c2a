"""How the machines of a group are joined: transports, cables and addresses.

Start with ``fallback.py``.
"""
