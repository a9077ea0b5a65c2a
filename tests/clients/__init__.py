"""Clients that people have, installed from their registries, against a real gateway and two real ranks: ``make clients``.

Read ``rows.py`` first. What a person types for each client stands in ``docs/clients.md``, and is run from there.
"""
