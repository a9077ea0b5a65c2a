"""The product on this machine: the service that keeps `reconciler up` running, and its versions. Start with
``service.py``."""
