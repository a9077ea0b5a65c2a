"""Operations as people ask for them: what each verb makes of the present ones, and the commit. Start with ``change.py``.

The command line and the controller, which acts for the console, use this room alike: the same request is the same commit.
"""
