"""The chat page's way to the gateway: what a browser asks for, and the answer as it comes.

The browser speaks to the console alone. ``asked.py`` is what is passed on (pure), ``upstream.py`` asks the gateway, and
``routes.py`` answers the browser.
"""
