"""Commands that commit changes of manifests. Start with ``manifests.py``."""
