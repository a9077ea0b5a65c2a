"""What the cluster's own metrics say of the remote repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.controller.admin.measured import _source
from reconciler.controller.mirror.following import Following
from reconciler.controller.mirror.standing import Standing, answered, failed
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.mirror.looking import Look

NEW = Standing(GitRepositorySpec(url="/srv/cluster.git"), 0.0)
UP = answered(NEW, Look("a" * 40), 10.0)[0]
AWAY = failed(UP, "no route to host", False, 20.0)[0]


class Remote:
    """One that nobody asks here."""

    def look(self, spec: GitRepositorySpec, known: Look | None, at_once: bool) -> Look:
        raise AssertionError

    def configure(self, spec: GitRepositorySpec | None) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("standing", "complaint", "told"),
    [
        (None, "", (None, None)),
        (NEW, "", (None, None)),
        (UP, "", (True, 10.0)),
        (AWAY, "", (False, 10.0)),
        (failed(NEW, "it needs a key", True, 20.0)[0], "", (False, None)),
        (UP, "source.yaml: unknown field", (False, 10.0)),
        (None, "source.yaml: unknown field", (False, None)),
    ],
    ids=[
        "none",
        "not asked yet",
        "answers",
        "away",
        "never answered",
        "unreadable settings",
        "unreadable from the start",
    ],
)
def test_whether_it_answers_and_when_it_did_last(
    standing: Standing | None, complaint: str, told: tuple[bool | None, float | None]
) -> None:
    following = Following(
        Path("source.yaml"), Remote(), lambda: 0.0, lambda: 0.5, lambda _: None, lambda _: None
    )
    following.standing, following.complaint = standing, complaint
    assert _source(following) == told


def test_without_a_remote_repository_nothing_is_said() -> None:
    assert _source(None) == (None, None)
