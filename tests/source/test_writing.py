"""Commits of commands: what is decided on an older state is decided again, and nothing else is."""

from __future__ import annotations

import pytest

from reconciler.errors import Conflict
from reconciler.source.editing import Edit
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.operating.change import Asking
from reconciler.source.operating.writing import COMMITS_TRIED, write, write_manifests

from .conftest import AUTHOR

pytestmark = pytest.mark.processes


def test_a_decision_that_finds_a_conflict_itself_is_made_once(repo: ClusterRepo) -> None:
    asked: list[object] = []

    def decide(state: object) -> Edit:
        asked.append(state)
        raise Conflict("somebody else has changed node/studio-1")

    with pytest.raises(Conflict, match="somebody else"):
        write_manifests(repo, AUTHOR, decide, lambda results: "", {})
    with pytest.raises(Conflict, match="somebody else"):
        write(repo, AUTHOR, Asking(str(AUTHOR)), decide, lambda: 0.0)  # type: ignore[arg-type]
    assert len(asked) == 2


def test_a_commit_beside_others_is_decided_again_a_few_times(
    repo: ClusterRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def decide(state: object) -> Edit:
        asked.append(state)
        return Edit({"a.yaml": b"a"}, ())

    def refuse(*_: object) -> str:
        raise Conflict("main is elsewhere")

    monkeypatch.setattr(ClusterRepo, "commit", refuse)
    with pytest.raises(Conflict, match="elsewhere"):
        write_manifests(repo, AUTHOR, decide, lambda results: "", {})
    assert len(asked) == COMMITS_TRIED
