"""The controller's answers to the command line. Start with ``answer.py``."""
