"""Fetched weights on a node: they are listed, and removed when that is asked for; nothing else ever is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from reconciler.agent.weights.kept import StoredWeights
from reconciler.wire.weights import hub_path, partial_folder

A, B = hub_path("org/tiny", "a" * 40), hub_path("org/tiny", "b" * 40)
WAIT_SECONDS = 60.0


@pytest.fixture
def models(tmp_path: Path) -> Path:
    for folder in (tmp_path / A, partial_folder(tmp_path / B), tmp_path / "tiny"):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "hub" / "org--tiny" / f".{'a' * 40}.lock").touch()
    return tmp_path


def gone(kept: StoredWeights, folder: Path) -> bool:
    """Whether nothing of a folder is left, or soon will be: an agent looks every few seconds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while any(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
        kept.scan(())
    return not any(folder.iterdir())


def test_complete_weights_and_those_that_are_fetched_are_listed(models: Path) -> None:
    found = StoredWeights(models).scan(())
    assert [(each.path, each.whole) for each in found] == [(A, True), (B, False)]


def test_what_nobody_asks_for_becomes_stale(models: Path) -> None:
    kept = StoredWeights(models, stale_seconds=0.05)
    assert [each.stale for each in kept.scan((A, B))] == [False, False]
    time.sleep(0.06)
    assert [each.stale for each in kept.scan((A,))] == [False, True]


def test_removed_weights_are_out_of_sight_at_once_and_then_gone(models: Path) -> None:
    kept = StoredWeights(models)
    kept.remove(A)
    assert [each.path for each in kept.scan(())] == [B]
    kept.remove(B)
    assert kept.scan(()) == ()
    assert gone(kept, models / "hub" / "org--tiny")
    assert (models / "tiny" / "model.safetensors").exists()


def test_what_a_dead_agent_left_half_removed_is_removed(models: Path) -> None:
    (models / A).rename((models / A).with_name(".gone-x"))
    kept = StoredWeights(models)
    kept.remove(B)
    (models / "hub" / "org--tiny" / f".{'a' * 40}.lock").unlink()
    assert gone(kept, models / "hub" / "org--tiny")


@pytest.mark.parametrize("path", ["tiny", "hub/../tiny", "hub/org--tiny", "/etc/x/y", "hub/../../x"])
def test_nothing_else_is_ever_removed(models: Path, path: str) -> None:
    before = sorted(models.rglob("*"))
    with pytest.raises(ValueError, match="expected hub/<repository>/<revision>"):
        StoredWeights(models).remove(path)
    assert sorted(models.rglob("*")) == before


def test_removing_what_is_not_there_changes_nothing(models: Path) -> None:
    StoredWeights(models).remove(hub_path("org/tiny", "c" * 40))
    assert len(StoredWeights(models).scan(())) == 2


@pytest.mark.parametrize(
    ("folder", "listed"),
    [
        ("c" * 40, "c" * 40),
        (f".{'c' * 40}.partial", "c" * 40),
        (f".{'c' * 40}.unknown", ""),
        (f".{'c' * 40}", ""),
        (".gone-" + "c" * 40, ""),
        (f".gone-.{'c' * 40}.partial", ""),
    ],
)
def test_other_folders_beside_weights_are_none(folder: str, listed: str, models: Path) -> None:
    (models / "hub" / "org--tiny" / folder).mkdir()
    found = [each.path for each in StoredWeights(models).scan(())]
    assert found == [A, B, *([hub_path("org/tiny", listed)] if listed else [])]
