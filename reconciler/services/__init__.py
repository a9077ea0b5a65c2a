"""The services of a home on this machine: their locks, their supervision, the service that keeps `reconciler up` running, and
the versions of the product. Start with ``supervise.py``."""
