"""Anthropic's surface: ``POST /v1/messages``, and the errors of its clients.

Read ``request`` first: it turns a body into the internal request; ``blocks`` turns events into content blocks.
"""
