"""Output formats: tables, JSON, YAML, JSONPath and progress. Start with ``form.py``."""
