"""A file for whoever helps: what is known of a cluster, without secrets. Start with ``support.py``."""
