"""The console: the cluster in a browser, live. A separate process that only shows and asks; the controller writes all changes.

``feed.py`` keeps a ``Snapshot`` of the controller's answers, and ``view/`` turns it into the content of each page (pure).
``templates/`` has the HTML, and ``live.py`` sends changes to open pages. ``acts/`` asks once before it changes anything,
``logs/`` follows the output of ranks, ``app.py`` is the Starlette application, and ``listener.py`` has the bounds of its
connections and of bodies.
"""
