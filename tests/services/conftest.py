"""A home with a path short enough for sockets, as tests of commands have one."""

from tests.cli.conftest import home

__all__ = ["home"]
