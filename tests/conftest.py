"""For all tests: properties are checked on machines that are busy with other things."""

from hypothesis import settings

settings.register_profile("reconciler", deadline=None)
settings.load_profile("reconciler")
