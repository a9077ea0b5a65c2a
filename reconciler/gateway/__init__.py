"""The gateway: one endpoint in front of every running group.

It knows routes, not nodes. Read ``app`` first: it puts the paths together. A request goes through these rooms:

=============  ======================================================================================
``process``    the process: its loop, its clock, and the signals that end it
``server``     waits for the routes file, listens, takes over and hands over, stops in order
``app``        the paths of every dialect
``front``      the checks that every request passes before its endpoint
``http``       bodies in, JSON or streams out, the client that goes away
``dialects``   PURE: turns an API's bodies into ``wire.generation.Generate``, and answers back
``handover``   one gateway takes over from another: the socket, the lock, the use of keys
``routing``    holds a request, chooses a group, continues on another after a loss
``keys``       who may ask for what, and how much each key has used
``records``    the access log, and recorded requests
``hooks``      webhooks that announce a push
=============  ======================================================================================

``events`` and ``errors`` travel between the rooms. ``metrics`` reports. ``reconciler.serving`` decides which connections may
stay, and PURE ``routing.fairness`` which requests go first.
"""
