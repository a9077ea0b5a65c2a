"""The product installed on this machine: what keeps `reconciler up` running, and its versions. Start with ``service.py``."""
