"""The console: the cluster in a browser, live. A process beside controller and gateway, which only shows and asks: what a
person does here, the controller writes.

``feed.py`` keeps a ``Snapshot`` of what the controller says, ``view/`` makes of it what each page shows (pure),
``templates/`` is the HTML, ``live.py`` sends open pages what has changed, ``acts/`` asks once before something is done,
``logs/`` follows ranks, and ``app.py`` is the Starlette application.
"""
