"""The change of the world by each command of ``reconciler sandbox``, and the message. Pure. Start with ``act.py``."""
