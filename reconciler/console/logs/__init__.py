"""The output of ranks in a browser, followed: the page in ``log.py``, its lines in ``lines.py``."""
