"""Runs of jobs in the store: each is read back as it was written, and outlives everything but its own removal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.errors import Conflict
from reconciler.state import GroupRecord, JobName, NodeName, RunId
from reconciler.state.jobs import (
    Artifacts,
    AttemptEnd,
    Fetched,
    RankEnd,
    Run,
    RunAttempt,
    RunEnd,
    RunReason,
    RunResult,
)
from reconciler.store import Store
from reconciler.wire.launch import Exit
from tests.store.test_store import ATTEMPT, GROUP, TINY

FIRST, SECOND, OTHER = (RunId(JobName(name), index) for name, index in (("hpl", 1), ("hpl", 2), ("tiny", 0)))
RUN = Run(FIRST, "f" * 16, 5.0)
TIMES = st.floats(0, 1e10, allow_nan=False)
TEXTS = st.text(max_size=20)
EXITS = st.builds(Exit, st.none() | st.integers(0, 255), st.none() | st.integers(1, 64), TIMES, TEXTS)
ATTEMPTS = st.builds(
    RunAttempt,
    st.integers(1, 99),
    TIMES,
    TIMES,
    st.sampled_from(AttemptEnd),
    TEXTS,
    st.lists(st.builds(RankEnd, st.just(NodeName("a")), st.none() | EXITS), max_size=3).map(tuple),
    TEXTS,
)
ENDS = st.builds(RunEnd, st.sampled_from(RunResult), st.sampled_from(RunReason), TIMES, TEXTS)
ARTIFACTS = st.builds(Artifacts, st.sampled_from(Fetched), st.integers(0, 9), st.integers(0, 9), TEXTS)


def group(run: RunId, epoch: int = 1) -> GroupRecord:
    return replace(GROUP, workload=run, epoch=epoch)


@given(
    created=TIMES,
    scheduled=st.none() | TIMES,
    started=st.none() | TIMES,
    attempts=st.lists(ATTEMPTS, max_size=3).map(tuple),
    ended=st.none() | ENDS,
    artifacts=ARTIFACTS,
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_a_run_is_read_as_it_was_written(
    store: Store,
    created: float,
    scheduled: float | None,
    started: float | None,
    attempts: tuple[RunAttempt, ...],
    ended: RunEnd | None,
    artifacts: Artifacts,
) -> None:
    run = Run(FIRST, "f", created, scheduled, started, 1.5, scheduled, attempts, ended, artifacts)
    store.put_run(run)
    assert store.contents.read().runs == {FIRST: run}


def test_a_run_and_a_replica_of_one_name_have_nothing_in_common(store: Store) -> None:
    run = RunId(JobName(TINY.deployment), TINY.index)
    store.allocate(GROUP, ATTEMPT)
    store.create_run(replace(RUN, id=run), group(run))
    store.end_attempt(replace(RUN, id=run))
    assert list(store.groups()) == [TINY]
    store.create_run(replace(RUN, id=SECOND), group(SECOND))
    store.release(TINY)
    assert list(store.groups()) == [SECOND]


def test_a_run_is_written_with_its_attempt_or_not_at_all(store: Store) -> None:
    store.create_run(RUN, group(FIRST, epoch=3))
    with pytest.raises(Conflict):
        store.create_run(RUN)
    with pytest.raises(Conflict):
        store.create_run(replace(RUN, id=SECOND), replace(group(FIRST, epoch=2)))
    assert list(store.contents.read().runs) == [FIRST]


def test_the_first_attempt_says_when_a_run_has_started(store: Store) -> None:
    store.create_run(RUN)
    for epoch, at in ((1, 7.0), (2, 9.0)):
        store.allocate(replace(group(FIRST, epoch), created_at=at), ATTEMPT)
    assert store.contents.read().runs[FIRST].started_at == 7.0


def test_runs_are_removed_alone(store: Store) -> None:
    for id in (FIRST, SECOND, OTHER):
        store.create_run(replace(RUN, id=id))
    store.remove_runs([FIRST])
    assert list(store.contents.read().runs) == [SECOND, OTHER]


def test_nothing_stays_of_a_run_that_is_removed(store: Store) -> None:
    store.allocate(GROUP, ATTEMPT)
    for id in (FIRST, SECOND):
        store.create_run(replace(RUN, id=id))
        store.allocate(group(id), replace(ATTEMPT, epoch=1))
        store.end_attempt(replace(RUN, id=id))
    store.remove_runs([FIRST])
    left = store.contents.read()
    assert set(left.last_epochs) == set(left.attempts) == {TINY, SECOND}
