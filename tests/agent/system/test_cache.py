"""Ranks keep compiled kernels where only their user can write."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.agent.system.cache import folder_for_kernels


@pytest.fixture
def node(tmp_path: Path) -> Path:
    made = tmp_path / "node"
    made.mkdir()
    return made


def test_nodes_of_a_user_share_their_kernels(tmp_path: Path, node: Path) -> None:
    shared = folder_for_kernels({"HOME": str(tmp_path)}, node)
    assert shared == tmp_path / ".cache" / "reconciler" / "tmp"
    assert shared.stat().st_mode & 0o777 == 0o700
    assert folder_for_kernels({"HOME": str(tmp_path)}, tmp_path / "other") == shared
    assert not (node / "tmp").exists()


def test_a_cache_that_the_user_has_chosen_is_used(tmp_path: Path, node: Path) -> None:
    chosen = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "chosen")}
    assert folder_for_kernels(chosen, node) == tmp_path / "chosen" / "reconciler" / "tmp"
    relative = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "chosen"}
    assert folder_for_kernels(relative, node) == tmp_path / ".cache" / "reconciler" / "tmp"


@pytest.mark.parametrize("inner", [False, True])
def test_a_cache_that_others_may_write_to_is_not_used(tmp_path: Path, node: Path, inner: bool) -> None:
    home = {"HOME": str(tmp_path)}
    shared = folder_for_kernels(home, node)
    (shared if inner else shared.parent).chmod(0o777)
    assert folder_for_kernels(home, node) == node / "tmp"


def test_without_a_place_for_a_cache_each_node_has_its_own(tmp_path: Path, node: Path) -> None:
    (tmp_path / ".cache").write_text("no folder")
    assert folder_for_kernels({"HOME": str(tmp_path)}, node) == node / "tmp"
    assert folder_for_kernels({}, node) == node / "tmp"
