"""The single seam to other machines, and the client and server side of request and answer.

``machines`` says what a controller asks of machines; begin there. ``nodes`` are the machines, ``ssh`` and ``rpc`` the
ways to them, ``runtime`` what is put there, ``bootstrap`` how a machine is made ready.
"""
