"""The chat page's way to the gateway: passes a browser's request on, and the answer as it comes.

The browser speaks only to the console. ``asked.py`` makes the request (pure), ``upstream.py`` asks the gateway, and
``routes.py`` answers the browser.
"""
