"""From a request to the group that answers it: routes, connections to rank 0, requests that wait, failover.

Read ``progress`` first: it decides the next step of a request. ``fairness`` decides when it is its turn. ``run``
carries the decisions out.
"""
