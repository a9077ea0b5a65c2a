"""A cluster repo and a person who pushes to it, as the tests of the source have them."""

from tests.source.conftest import home, person, repo

__all__ = ["home", "person", "repo"]
