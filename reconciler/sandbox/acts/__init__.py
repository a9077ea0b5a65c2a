"""What each command of ``reconciler sandbox`` does to the world, and the message. Pure. Start with ``act.py``."""
