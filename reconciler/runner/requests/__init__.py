"""Requests to rank 0: the socket, and the prompt of each request. Start with ``server.py``."""
