"""A path that cannot be a home is refused at once, with what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.bootstrap import Home
from reconciler.errors import Unwritable
from tests.cli.conftest import Cli

NOBODY = 65_534


@pytest.mark.parametrize("command", [("up",), ("restore", "any.tar.gz"), ("controller",)])
def test_a_file_is_no_home(cli: Cli, home: Path, command: tuple[str, ...]) -> None:
    home.write_text("a letter")
    refused = cli(*command)
    assert refused.code == 1
    assert command == ("controller",) or f"{home} is not a folder; choose another --home" in refused.err
    assert home.read_text() == "a letter"


def test_a_home_that_anybody_may_write_to_is_refused(cli: Cli, home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    refused = cli("up")
    assert (refused.code, f"chmod o-w {home}" in refused.err) == (1, True)
    assert not [*home.iterdir()]


def test_a_home_of_somebody_else_is_refused(cli: Cli, home: Path) -> None:
    if os.geteuid() == 0:
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        refused = cli("up")
        assert f"{home} belongs to user {NOBODY}, but this is user 0;" in refused.err
    else:
        refused = cli("--home", "/usr", "up")
        assert f"/usr belongs to user 0, but this is user {os.geteuid()};" in refused.err
    assert refused.code == 1


@contextmanager
def an_ordinary_user(folder: Path) -> Iterator[None]:
    """Root may write anywhere: then as nobody, whose the folder becomes."""
    if os.geteuid() != 0:
        yield
        return
    folder.parent.chmod(0o755)
    os.chown(folder, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_home_that_cannot_be_written_is_refused(home: Path) -> None:
    home.mkdir()
    home.chmod(0o500)
    with (
        an_ordinary_user(home),
        pytest.raises(Unwritable, match=f"{home} cannot be written: Permission denied"),
    ):
        Home(home).check()
    home.chmod(0o700)
