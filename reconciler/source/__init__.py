"""Reads and writes manifests: YAML with line numbers, the cluster repository, watched folders.

Only this room uses PyYAML, watchfiles and git. ``yaml/documents.py`` reads (start there), and ``editing.py`` writes
without reformatting. ``git/`` keeps the cluster repository, ``hook.py`` guards it, and ``sources.py`` serves the
controller's loop. ``operating/`` commits operations for the command line and the console. This module imports nothing,
because the hook runs at every push and has to start quickly.
"""
