"""`install`, `uninstall`, `upgrade` and `rollback` where there is nothing for them to do."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.commands.installed import upgrade
from reconciler.cli.core import environment
from reconciler.services.versions import Versions
from tests.cli.conftest import Cli


@pytest.fixture
def systemd_of_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose systemd runs."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "systemd").mkdir()


@pytest.mark.parametrize("command", ["upgrade", "rollback"])
def test_without_a_service_there_is_no_version_to_replace(cli: Cli, command: str) -> None:
    told = cli(command)
    assert told.code == 1
    assert "no service is installed for " in told.err
    assert "reconciler install" in told.err


def test_without_an_upgrade_there_is_nothing_to_go_back_to(cli: Cli, home: Path) -> None:
    python = home / "versions" / "0.1.0" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (home / "versions" / "current").symlink_to("0.1.0")
    told = cli("rollback")
    assert told.code == 1
    assert "version 0.1.0 is the only one; for another: reconciler upgrade VERSION" in told.err


def test_a_version_is_named_once(cli: Cli) -> None:
    told = cli("upgrade", "0.2.0", "--from", ".")
    assert told.code == 2
    assert "--from says which version it is; omit VERSION" in told.err


@pytest.mark.usefixtures("systemd_of_user")
def test_nothing_is_removed_where_nothing_is_installed(cli: Cli, home: Path) -> None:
    assert cli("uninstall", "--user", "--yes").out == f"nothing is installed for {home}\n"


@pytest.mark.usefixtures("systemd_of_user")
def test_what_is_no_home_is_not_purged(cli: Cli, home: Path) -> None:
    (home / "thesis").mkdir(parents=True)
    told = cli("uninstall", "--user", "--purge", "--yes")
    assert told.code == 1
    assert "is no home of a cluster" in told.err
    assert (home / "thesis").exists()


@pytest.mark.usefixtures("systemd_of_user")
def test_a_dry_run_shows_everything_and_writes_nothing(cli: Cli, home: Path, tmp_path: Path) -> None:
    told = cli("install", "--user", "--dry-run")
    assert told.code == 0
    assert "* install mlx-reconciler" in told.out
    assert f"write {tmp_path}/.config/systemd/user/reconciler.up." in told.out
    assert "systemctl --user enable --now" in told.out
    assert not home.exists()
    assert not (tmp_path / ".config").exists()


@pytest.mark.usefixtures("systemd_of_user")
def test_without_a_terminal_it_asks_for_yes(cli: Cli, home: Path) -> None:
    told = cli("install", "--user")
    assert told.code == 1
    assert "nothing was done; to do it, repeat the command with --yes" in told.err
    assert not home.exists()


def test_sudo_is_not_for_the_whole_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ada")
    told = cli("install", "--dry-run")
    assert told.code == 1
    assert "type it as the user who owns the cluster, without sudo" in told.err


@pytest.mark.parametrize("command", [("upgrade",), ("upgrade", "0.2.0")])
def test_the_product_is_asked_of_no_index_that_nobody_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Whoever takes its name on PyPI would run code here: the environment of uv may name an index, or an option does."""
    for name in environment.INDEXES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment, "distribution", from_an_index)
    monkeypatch.setattr(upgrade, "_installed", lambda _: (Versions(tmp_path), "0.1.0"))
    told = cli(*command)
    assert told.code == 1
    assert (
        "give the wheel or the clone with --from PATH, or an index of your own with --index-url URL"
        in told.err
    )
    assert list(tmp_path.iterdir()) == []


def from_an_index(name: str) -> Any:
    """A distribution whose installer has not written where it came from, as for what an index had."""
    raise PackageNotFoundError(name)
