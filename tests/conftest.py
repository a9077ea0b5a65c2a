"""For all tests: properties are checked on machines that are busy with other things."""

import signal

from hypothesis import settings

settings.register_profile("reconciler", deadline=None)
settings.load_profile("reconciler")

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell has what it starts in the background ignore Ctrl-C, and the commands under test would inherit that."""
