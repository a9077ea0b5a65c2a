"""`quickstart` before it starts anything; tests/e2e/test_installation.py runs it from a wheel."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from reconciler.cli.commands.cluster.quickstart import FOLDER, MODEL
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import prepare
from reconciler.cli.core.environment import install_command, runtime_packages
from reconciler.cli.core.shipped import SHIPPED
from reconciler.source.files import read_directory
from reconciler.source.git.repository import Author
from reconciler.wire.engines import MLX
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
    assert [each for each in MLX.pins[1:] if f" {each}" not in told.err] == []
    assert "mlx-reconciler" not in told.err, "nobody has published that name"
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
    [
        ("uv-receipt.toml", "uv pip install --python {}/bin/python"),
        ("pipx_metadata.json", "pipx inject mlx-reconciler"),
    ],
)
def test_the_tool_that_has_installed_it_installs_more(tmp_path: Path, file: str, begins: str) -> None:
    (tmp_path / file).touch()
    assert install_command(("mlx[cpu]==1", "b"), tmp_path) == f"{begins.format(tmp_path)} 'mlx[cpu]==1' b"


def test_what_uv_runs_once_is_run_once_more() -> None:
    cached = Path("/home/me/.cache/uv/archive-v0/abc")
    assert install_command(("mlx[cpu]==1", "b"), cached).startswith("uvx --with 'mlx[cpu]==1' --with b, ")


def test_another_environment_is_named() -> None:
    told = install_command(("mlx==1",), Path("/srv/my env"))
    assert "'/srv/my env/bin/python'" in told
    assert told.endswith(" mlx==1")


def test_the_packages_of_ranks_are_those_that_the_engine_names() -> None:
    found = [re.sub(r"\[.*?\]", "", each) for each in runtime_packages()]
    assert set(found) >= set(MLX.pins)
