"""What is told of a remote, and when it is asked again: with a clock that tests turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.controller.mirror.standing import AWAY_SECONDS, Standing, answered, failed, pause
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.mirror.looking import Look
from reconciler.state.reports.status import Event

SPEC = GitRepositorySpec(url="/srv/cluster.git")
NEW = Standing(SPEC, 0.0)


def test_a_remote_that_is_away_for_an_hour_is_told_once_and_once_more_when_it_is_back() -> None:
    now, standing, told = 1000.0, NEW, list[Event]()
    looks = 0
    while now < 1000.0 + 3600.0:
        standing, events = failed(standing, "no route to host", False, now)
        told += events
        looks += 1
        now += pause(standing, False, 0.5)
    assert [event.reason for event in told] == ["SourceAway"]
    assert AWAY_SECONDS <= told[0].at - 1000.0 < AWAY_SECONDS + 120.0
    assert "no route to host, since 1970-01-01 00:16:40 UTC; what is in force stays" in told[0].message
    assert looks < 80, "it is not asked in a tight loop"
    standing, events = answered(standing, Look("a" * 40), now)
    assert [event.reason for event in events] == ["SourceBack"]
    assert (standing.failures, standing.failed_since, standing.problem) == (0, None, "")


def test_a_short_absence_is_not_told() -> None:
    standing, events = failed(NEW, "connection refused", False, 10.0)
    assert events == ()
    assert answered(standing, Look("a" * 40), 20.0)[1] == ()


def test_what_a_person_must_set_right_is_told_at_once_and_once_for_each_reason() -> None:
    standing, first = failed(NEW, "wrong token", True, 10.0)
    standing, again = failed(standing, "wrong token", True, 20.0)
    standing, other = failed(standing, "no branch", True, 30.0)
    assert [[event.reason for event in events] for events in (first, again, other)] == [
        ["SourceUnusable"],
        [],
        ["SourceUnusable"],
    ]


def test_an_allowed_rewind_is_told() -> None:
    _, (event,) = answered(NEW, Look("a" * 40, moved=True, dropped=2), 10.0)
    assert (event.reason, event.warning) == ("SourceRewound", True)
    assert "was rewound by 2 commits" in event.message


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 60.0), (1, 5.0), (2, 10.0), (4, 40.0), (5, 60.0), (400, 60.0)]
)
def test_waits_grow_with_failures_up_to_the_interval(failures: int, seconds: float) -> None:
    standing = replace(NEW, failures=failures)
    assert pause(standing, False, 0.5) == pytest.approx(seconds)
    assert pause(standing, False, 0.0) == pytest.approx(seconds * 0.9)
    assert pause(standing, False, 1.0) == pytest.approx(seconds * 1.1)


def test_who_was_told_of_news_and_found_none_looks_once_more_soon() -> None:
    standing, _ = answered(NEW, Look("a" * 40), 10.0)
    assert pause(standing, True, 0.5) == 1.0
    standing, _ = answered(NEW, Look("a" * 40, moved=True), 10.0)
    assert pause(standing, True, 0.5) == 60.0


def test_a_refused_commit_is_named() -> None:
    standing, _ = answered(NEW, Look("a" * 40, refusal="b.yaml:1:1: wrong"), 10.0)
    assert standing.refusal == "commit aaaaaaaaaa of /srv/cluster.git is refused: b.yaml:1:1: wrong"
