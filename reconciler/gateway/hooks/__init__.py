"""The webhook of the remote repository. It only says "look now": start with ``receiver.py``."""
