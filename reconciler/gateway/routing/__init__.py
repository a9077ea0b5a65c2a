"""From a request to the group that answers it: routes, connections to rank 0, requests that wait, failover.

Read ``progress`` first: it decides what becomes of a request, and ``fairness`` when it is its turn. ``run`` carries that
out.
"""
