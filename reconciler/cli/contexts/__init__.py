"""The cluster of a command: a home on this machine, or one on another machine over SSH.

``contexts_file.py`` reads and writes the file of contexts, ``away.py`` reaches a home on another machine.
"""
