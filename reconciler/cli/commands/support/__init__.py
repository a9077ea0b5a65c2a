"""A file for people who help: all facts about a cluster, without secrets. Start with ``support.py``."""
