"""Follows the output of ranks in a browser: the page is in ``log.py``, its lines in ``lines.py``."""
