"""YAML manifests: parsing with positions, validation and changes in place. Start with ``documents.py``."""
