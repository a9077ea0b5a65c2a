"""Reports of a gateway that drains add up to all that it has used, and nothing is counted twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.errors import ApiError
from reconciler.gateway.handover.reports import Reports, together
from reconciler.gateway.keys.caller import Caller
from reconciler.gateway.keys.desk import Desk, Ticket
from reconciler.gateway.keys.ledger import DAY_SECONDS, MemoryLedger
from reconciler.gateway.keys.shared.ledger import Gateway as Sharer
from reconciler.gateway.keys.shared.ledger import SharedLedger
from reconciler.gateway.keys.shared.store import SharedStore
from reconciler.gateway.keys.usage import Usage
from reconciler.wire.figures import ModelFigures
from reconciler.wire.gateway import LimitsStore
from reconciler.wire.keys import AccessKey
from tests.gateway.keys.running import Running

KEYS = ("agent", "laptop")
NOON = 20_000.5 * DAY_SECONDS
BOUNDS = (0.5, 2.0)
COUNTS = st.integers(0, 100)
MODELS = st.builds(
    ModelFigures,
    st.sampled_from(["small", "large"]),
    COUNTS,
    COUNTS,
    COUNTS,
    st.tuples(COUNTS, COUNTS, COUNTS),
    COUNTS,
)
FIGURES = st.lists(MODELS, unique_by=lambda each: each.model).map(tuple)


class Gateway:
    """The counts of a gateway whose clock stands still."""

    def __init__(self) -> None:
        self.wall = NOON
        self.desk = Desk(lambda: self.wall, lambda: 1.0)
        self._open: list[tuple[Ticket, Running]] = []

    def begin(self, key: str) -> None:
        request = Running()
        ticket = asyncio.run(self.desk.admit(Caller(f"key {key}", AccessKey(key, ())), (), 1, request))
        self._open.append((ticket, request))

    def say(self, tokens: int) -> None:
        for _, request in self._open:
            request.so_far = Usage(3, request.so_far.completion + tokens)

    def end(self, fails: bool) -> None:
        if self._open:
            ticket, _ = self._open.pop(0)
            failed = ApiError(503, "server_error", None, "gone") if fails else None
            ticket.__exit__(ApiError if fails else None, failed, None)


def hears(new: Desk, reports: Reports) -> None:
    """The new gateway counts a report."""
    for each in reports.news():
        new.add(each.usage, each.ended, each.prompt, each.completion)


ACTS: st.SearchStrategy[Callable[[Gateway], object]] = st.one_of(
    st.sampled_from(KEYS).map(lambda key: lambda one: one.begin(key)),
    st.integers(1, 50).map(lambda tokens: lambda one: one.say(tokens)),
    st.booleans().map(lambda fails: lambda one: one.end(fails)),
)


@given(st.lists(st.one_of(ACTS, st.none()), max_size=30))
def test_reports_add_up_to_all_that_is_used(acts: list[Callable[[Gateway], object] | None]) -> None:
    """``None``: a report."""
    old, new = Gateway(), Gateway()
    reports = Reports(old.desk)
    for act in [*acts, None]:
        if act is None:
            hears(new.desk, reports)
        else:
            act(old)
    assert new.desk.snapshot() == old.desk.snapshot()
    assert reports.news() == []
    for name, counts in old.desk.book.counts().items():
        heard = new.desk.book.counts()[name]
        assert (heard.requests, heard.prompt, heard.completion) == (
            counts.requests,
            counts.prompt,
            counts.completion,
        )


def test_own_use_and_reports_are_counted_together_for_the_day() -> None:
    old, new = Gateway(), Gateway()
    reports = Reports(old.desk)
    for one, tokens in ((old, 10), (new, 500)):
        one.begin("agent")
        one.say(tokens)
        one.end(fails=False)
    hears(new.desk, reports)
    (usage,) = new.desk.snapshot()
    assert (usage.tokens, usage.requests) == (3 + 10 + 3 + 500, 2)
    ledger = new.desk.ledger
    assert isinstance(ledger, MemoryLedger)
    assert ledger.account("agent", new.desk.now()).used_today == usage.tokens


def test_what_is_reported_of_the_day_before_leaves_the_present_day_as_it_is() -> None:
    old, new = Gateway(), Gateway()
    reports = Reports(old.desk)
    old.begin("agent")
    old.say(10)
    hears(new.desk, reports)
    new.wall += DAY_SECONDS
    new.begin("agent")
    new.end(fails=False)
    old.say(10)
    hears(new.desk, reports)
    (usage,) = new.desk.snapshot()
    assert (usage.day, usage.tokens, usage.requests) == (int(NOON // DAY_SECONDS) + 1, 0, 1)
    old.wall += DAY_SECONDS
    old.end(fails=False)
    hears(new.desk, reports)
    (usage,) = new.desk.snapshot()
    assert (usage.tokens, usage.requests) == (3 + 20, 1)


def test_the_last_minute_is_in_the_first_report_unless_a_store_counts_it() -> None:
    old = Gateway()
    own = old.desk.ledger
    assert isinstance(own, MemoryLedger)
    old.begin("agent")
    old.say(10)
    old.end(fails=False)
    (alone,) = Reports(old.desk).first()
    assert (sum(alone.requests[1::2]), sum(alone.tokens[1::2])) == (1, 13)
    store = SharedStore(LimitsStore("127.0.0.1:1", "test"))
    old.desk.ledger = SharedLedger(own, store, Sharer("node-a", "process"), lambda: 1.0, lambda: None)
    (shared,) = Reports(old.desk).first()
    assert shared == replace(alone, requests=(), tokens=())


def total(figures: tuple[ModelFigures, ...]) -> int:
    return sum(
        each.running + each.waiting + each.errors + each.tokens + sum(each.first_token) for each in figures
    )


@given(FIGURES, FIGURES)
def test_figures_of_two_gateways_are_added(
    one: tuple[ModelFigures, ...], other: tuple[ModelFigures, ...]
) -> None:
    assert total(together(one, other, BOUNDS)) == total(one) + total(other)


def test_figures_by_other_bounds_are_left_out() -> None:
    own = ModelFigures("small", 0, 0, 1, (1, 2, 3), 3)
    other = replace(own, first_token=(1, 2))
    assert together((own,), (other,), BOUNDS) == (own,)
    assert together((), (other,), BOUNDS) == (), "this gateway may soon count for that deployment itself"
