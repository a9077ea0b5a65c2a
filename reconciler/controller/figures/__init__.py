"""The figures of deployments and nodes over the last hours, in bounded size.

``series.py`` keeps them in memory (pure), ``sample.py`` makes them from the reports of agents and the gateway (pure),
``files.py`` keeps them over a restart, and ``keeper.py`` does that every ten seconds.
"""
