"""API keys: the clients that may use the endpoint, their limits, and their use.

Read ``caller`` first: every request has one.
"""
