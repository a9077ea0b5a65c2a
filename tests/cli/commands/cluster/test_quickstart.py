"""`quickstart` before it starts anything; tests/e2e/test_installation.py runs it from a wheel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reconciler.cli.commands.cluster.quickstart import FOLDER, MODEL
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import prepare
from reconciler.cli.core.environment import install_command
from reconciler.cli.core.shipped import SHIPPED
from reconciler.source.files import read_directory
from reconciler.source.git.repository import Author
from tests.cli.conftest import Cli

NODE = "apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata:\n  name: mine\nspec:\n  local: {}\n"


def test_what_it_serves_comes_with_the_package() -> None:
    assert MODEL in read_directory(SHIPPED / "manifests", FOLDER)
    assert (SHIPPED / "models" / "tiny" / "config.json").is_file()


def test_without_what_ranks_need_it_says_what_to_type(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlx", None)
    told = cli("quickstart")
    assert told.code == 1
    assert "ranks need MLX, which is not installed here; type: " in told.err
    assert "'mlx-reconciler[runtime]'" in told.err
    assert not home.exists()


def test_another_cluster_is_not_started_by_accident(cli: Cli, home: Path) -> None:
    repo = prepare(Settings(home))
    repo.commit(None, {"mine.yaml": NODE.encode()}, "Start the cluster", Author("me", "me@example.org"))
    told = cli("quickstart")
    assert told.code == 1
    assert f"{home} has another cluster" in told.err
    assert "reconciler-quickstart quickstart" in told.err


@pytest.mark.parametrize(
    ("file", "begins"),
    [("uv-receipt.toml", "uv tool install --force "), ("pipx_metadata.json", "pipx install --force ")],
)
def test_the_tool_that_has_installed_it_installs_more(tmp_path: Path, file: str, begins: str) -> None:
    (tmp_path / file).touch()
    assert install_command("mlx-reconciler[runtime]", tmp_path) == f"{begins}'mlx-reconciler[runtime]'"


def test_what_uv_runs_once_is_run_once_more() -> None:
    cached = Path("/home/me/.cache/uv/archive-v0/abc")
    assert install_command("mlx-reconciler[runtime]", cached) == (
        "uvx --from 'mlx-reconciler[runtime]' reconciler"
    )


def test_another_environment_is_named() -> None:
    assert install_command("mlx-reconciler", Path("/srv/my env")).endswith(
        "'/srv/my env/bin/python' -m pip install mlx-reconciler"
    )
