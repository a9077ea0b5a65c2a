"""Sends messages out of the cluster; the only room that does. ``webhooks.py`` tells people, ``forges/`` shows at a forge what
became of commits. No redirect is followed, certificates are checked, and no error holds a secret."""
