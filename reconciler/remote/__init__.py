"""The single seam to other machines, and the client and server side of request and answer.

Begin with ``machines``: the operations on machines. ``nodes`` has the machines, ``ssh`` and ``rpc`` the ways to them,
``runtime`` the files that are put there, and ``bootstrap`` the preparation of a machine.
"""
