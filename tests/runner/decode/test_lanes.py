"""The memory of sequences, and the lanes in which they are decoded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reconciler.runner.decode.lanes import HEADROOM, WASTE_MAX, Lanes
from reconciler.runner.model.caches import ANY, Footprint
from reconciler.wire.launch import CACHE_STEP

KIB = 2**10
FOOTPRINT = Footprint(ANY, (((0, 64 * KIB),),))
"""64 KiB a token."""


def lanes(tokens: int, footprint: Footprint = FOOTPRINT) -> Lanes:
    """With room for so many tokens of a single sequence."""
    return Lanes(footprint, [footprint.bytes_on(rank, tokens) for rank in range(len(footprint.ranks))])


def test_a_long_context_and_many_short_ones_share_a_group() -> None:
    """On what one long context and fifteen of 8 k take: in one lane they would take sixteen long ones."""
    found = lanes(131_072 + CACHE_STEP + 15 * (8192 + CACHE_STEP))
    found.enter(0, 131_072 - 500)
    assert found.start([0]) == 0
    numbers = set()
    for uid in range(1, 16):
        assert found.have_room(2000)
        found.enter(uid, 2000)
        numbers.add(found.start([uid]))
    assert numbers == {1}
    for _ in range(500):
        assert found.step() == []


def test_sequences_of_about_one_length_are_in_one_lane() -> None:
    found = lanes(100_000)
    for uid, length in enumerate((700, 600, 1000, 800)):
        found.enter(uid, length)
        assert found.start([uid]) == 0


def test_another_pass_over_large_weights_costs_more_than_wasted_memory() -> None:
    for weights, number in ((0, 1), (100 * WASTE_MAX, 0)):
        found = Lanes(FOOTPRINT, [FOOTPRINT.bytes(100_000)], weights)
        for uid, length in enumerate((100, 10_000)):
            found.enter(uid, length)
            last = found.start([uid])
        assert last == number


def test_the_latest_gives_way_when_there_is_no_room_for_the_next_tokens() -> None:
    found = lanes(4000 + 2 * CACHE_STEP + 2 * HEADROOM)
    for uid in range(2):
        assert found.have_room(2000)
        found.enter(uid, 2000)
        found.start([uid])
    gone: list[int] = []
    for _ in range(2 * HEADROOM):
        gone += found.step()
    assert gone == [1]


def test_one_alone_never_gives_way() -> None:
    found = lanes(100)
    assert found.have_room(10_000)
    found.enter(0, 10_000)
    found.start([0])
    assert found.step() == []


def test_every_rank_has_to_have_room() -> None:
    """One with windows, one without."""
    footprint = Footprint(ANY, (((1024, 64 * KIB),), ((0, 16 * KIB),)))
    for room, fits in (((1 << 30, 1 << 30), True), ((1 << 30, 1 << 20), False), ((1 << 20, 1 << 30), False)):
        found = Lanes(footprint, room)
        found.enter(0, 100)
        assert found.have_room(5000) == fits


@pytest.mark.parametrize("room", [10_000, 2000])
def test_the_room_is_counted_only_where_it_may_have_become_too_small(
    monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    counts = []
    count = Lanes._taken
    monkeypatch.setattr(Lanes, "_taken", lambda *given: counts.append(given) or count(*given))  # type: ignore[func-returns-value]
    found = lanes(room)
    found.enter(0, 1000)
    found.start([0])
    counts.clear()
    for _ in range(HEADROOM):
        assert found.step() == []
    assert len(counts) == 3, "once for this step, once for the next, and once for all that there is room for"


def test_where_nothing_is_known_there_is_always_room() -> None:
    found = Lanes(Footprint(ANY, ((),)), ())
    for uid, length in enumerate((10, 1_000_000)):
        assert found.have_room(length)
        found.enter(uid, length)
        assert found.start([uid]) == 0
        assert found.step() == []


class Memory(RuleBasedStateMachine):
    """Whatever comes and goes, more is never taken than there is: as MLX takes it, a lane by its longest sequence."""

    TOKENS = 5000

    def __init__(self) -> None:
        super().__init__()
        self.found = lanes(self.TOKENS)
        self.reading: dict[int, int] = {}
        self.lanes: dict[int, dict[int, int]] = {}
        self.next = 0

    def _gone(self, uids: list[int]) -> None:
        for uid in uids:
            self.reading.pop(uid, None)
            for lane in self.lanes.values():
                lane.pop(uid, None)
        self.lanes = {number: lane for number, lane in self.lanes.items() if lane}

    @rule(length=st.integers(1, TOKENS - CACHE_STEP - HEADROOM))
    def enter(self, length: int) -> None:
        if self.found.have_room(length):
            self.found.enter(self.next, length)
            self.reading[self.next] = length
            self.next += 1

    @precondition(lambda self: self.reading)
    @rule(data=st.data())
    def start(self, data: Any) -> None:
        uids = data.draw(st.lists(st.sampled_from(sorted(self.reading)), min_size=1, unique=True))
        if len(uids) > 1 and not self.found.go_together(uids):
            uids = uids[:1]
        lane = self.lanes.setdefault(self.found.start(uids), {})
        lane.update((uid, self.reading.pop(uid)) for uid in uids)

    @rule(steps=st.integers(1, 200))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            gone = self.found.step()
            for lane in self.lanes.values():
                lane.update((uid, length + 1) for uid, length in lane.items())
            self._gone(gone)
            self.fits()

    @precondition(lambda self: self.next)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        uid = data.draw(st.integers(0, self.next - 1))
        self.found.leave(uid)
        self._gone([uid])

    @invariant()
    def fits(self) -> None:
        taken = [(1, length) for length in self.reading.values()]
        taken += [(len(lane), max(lane.values())) for lane in self.lanes.values()]
        if sum(count for count, _ in taken) > 1:
            assert sum(count * (length + CACHE_STEP) for count, length in taken) <= self.TOKENS


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
