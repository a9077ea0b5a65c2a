"""Sends messages out of the cluster; the only room that does. ``webhooks.py`` tells people, ``forges/`` shows the
outcome of commits at a forge. Redirects are not followed, certificates are checked, and no error contains a secret."""
