"""The gateway: one endpoint in front of every running group.

It knows routes, not nodes. Read ``app`` first: it puts the paths together. A request goes through these rooms:

=============  ======================================================================================
``server``     the process: waits for the routes file, listens, stops in order
``app``        the paths of every dialect
``front``      what every request passes before its endpoint
``http``       bodies in, JSON or streams out, the client that goes away
``dialects``   PURE: an API's bodies to ``wire.generation.Generate``, answers and errors back
``routing``    holds a request, chooses a group, continues on another after a loss
=============  ======================================================================================

Beside them stand ``events`` and ``errors``, which travel between the rooms, ``health`` and ``metrics``, and PURE
``admission``: which connections may stay. ``routing.fairness`` says the same of requests.
"""
