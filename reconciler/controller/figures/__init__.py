"""What the cluster did over the last hours, in bounded size: figures of deployments and nodes.

``series.py`` keeps them in memory (pure), ``sample.py`` makes them from what agents and the gateway report (pure),
``files.py`` keeps them over a restart, and ``keeper.py`` does that every ten seconds.
"""
