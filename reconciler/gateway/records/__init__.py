"""The access log: one line of JSON for each request, written in a thread and kept for a while.

Start with ``entry.py``, which has the fields of a line. ``recording.py`` makes the lines, ``writer.py`` is the thread
that writes them, and ``file.py`` bounds their files.
"""
