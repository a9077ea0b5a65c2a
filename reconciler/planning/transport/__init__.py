"""The connections between the machines of a group: transports, cables and addresses.

Start with ``fallback.py``.
"""
