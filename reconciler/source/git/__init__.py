"""The cluster repository: reading, committing, history and hooks. Start with ``repository.py``."""
