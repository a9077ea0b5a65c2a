"""Decides what of a revision comes into force. Pure; the time is an argument.

Start with ``judge.py``: the order of the questions, which a push, a preview, a dry run, the loop, the remote repository and
the console all ask.
"""
