"""Operations as people ask for them: the change that each verb makes, and its commit. Start with ``change.py``.

The command line uses this room, and so does the controller for the console: the same request is the same commit.
"""
