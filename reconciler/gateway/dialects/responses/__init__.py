"""OpenAI's Responses API, without anything stored: items in, items out.

Read ``create`` first. ``request`` reads a body, with ``items`` and ``tools``; ``output`` makes the items and events
of an answer.
"""
