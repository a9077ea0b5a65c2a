"""The access log: one line of JSON for each request, written beside the event loop and kept for a while.

Start with ``entry.py``, what a line has; ``middleware.py`` makes the lines, ``file.py`` bounds their files, and
``writer.py`` is the thread that writes them.
"""
