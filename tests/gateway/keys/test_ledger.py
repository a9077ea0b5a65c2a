"""What a key may still use: never more than its limits, and nothing lost, whatever comes in whatever order."""

from __future__ import annotations

import asyncio
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.gateway.figures import Figure
from reconciler.gateway.keys.ledger import DAY_SECONDS, Grant, Limit, MemoryLedger, Moment, Refusal, share_of
from reconciler.gateway.keys.window import SECONDS, Window
from reconciler.wire.keys import KeyLimits

NOON = 20_000 * DAY_SECONDS + DAY_SECONDS // 2


def at(seconds: float) -> Moment:
    return Moment(seconds, NOON + seconds)


def reserve(ledger: MemoryLedger, limits: KeyLimits, tokens: int, seconds: float) -> Grant | Refusal:
    return asyncio.run(ledger.reserve("webui", limits, tokens, at(seconds)))


def granted(ledger: MemoryLedger, limits: KeyLimits, tokens: int, seconds: float) -> Grant:
    verdict = reserve(ledger, limits, tokens, seconds)
    assert isinstance(verdict, Grant)
    return verdict


def refused(ledger: MemoryLedger, limits: KeyLimits, tokens: int, seconds: float) -> tuple[Limit, float]:
    verdict = reserve(ledger, limits, tokens, seconds)
    assert isinstance(verdict, Refusal)
    return verdict.limit, verdict.retry_seconds


def test_a_minute_has_no_more_requests_than_the_limit_and_the_refusal_says_when_there_is_room() -> None:
    ledger, limits = MemoryLedger(), KeyLimits(requests_per_minute=3)
    for seconds in (0.0, 0.5, 10.0):
        granted(ledger, limits, 0, seconds)
    assert refused(ledger, limits, 0, 30.0) == (Limit.REQUESTS, 31.0)
    assert refused(ledger, limits, 0, 60.75) == (Limit.REQUESTS, 0.25)
    granted(ledger, limits, 0, 61.0)


def test_tokens_are_reserved_at_the_start_and_what_was_not_used_is_there_again_at_the_end() -> None:
    ledger, limits = MemoryLedger(), KeyLimits(tokens_per_minute=100)
    grant = granted(ledger, limits, 80, 0.0)
    assert refused(ledger, limits, 30, 1.0)[0] is Limit.TOKENS
    ledger.settle("webui", grant, 12, at(2.0))
    left = granted(ledger, limits, 88, 3.0).figures.tokens
    assert left is not None
    assert (left.limit, left.remaining) == (100, 0)


def test_what_was_used_beyond_the_reservation_counts_too() -> None:
    ledger, limits = MemoryLedger(), KeyLimits(tokens_per_minute=100)
    ledger.settle("webui", granted(ledger, limits, 10, 0.0), 150, at(2.0))
    assert refused(ledger, limits, 1, 3.0) == (Limit.TOKENS, 58.0)
    granted(ledger, limits, 100, 61.0)


def test_no_waiting_helps_a_request_that_is_larger_than_the_limit() -> None:
    assert refused(MemoryLedger(), KeyLimits(tokens_per_minute=10), 11, 0.0) == (Limit.TOKENS, math.inf)


def test_a_day_ends_at_midnight_and_what_is_open_may_give_something_back() -> None:
    ledger, limits = MemoryLedger(), KeyLimits(tokens_per_day=100)
    grant = granted(ledger, limits, 90, 0.0)
    limit, seconds = refused(ledger, limits, 20, 1.0)
    assert limit is Limit.DAY
    assert math.isfinite(seconds)
    ledger.settle("webui", grant, 90, at(2.0))
    assert refused(ledger, limits, 20, 3.0) == (Limit.DAY, math.inf)
    granted(ledger, limits, 20, DAY_SECONDS / 2)


def test_a_request_that_never_began_counts_nowhere() -> None:
    limits = KeyLimits(1, 10, 10, 1)
    ledger = MemoryLedger()
    for second in range(5):
        ledger.release("webui", granted(ledger, limits, 10, second), at(second))


def test_a_request_at_a_time_may_be_open() -> None:
    ledger, limits = MemoryLedger(), KeyLimits(parallel_requests=1)
    grant = granted(ledger, limits, 0, 0.0)
    assert refused(ledger, limits, 0, 0.0)[0] is Limit.PARALLEL
    ledger.settle("webui", grant, 0, at(0.0))
    granted(ledger, limits, 0, 0.0)


def test_a_restart_goes_on_with_the_day_and_not_with_that_before() -> None:
    limits = KeyLimits(tokens_per_day=100)
    today = int(NOON // DAY_SECONDS)
    ledger = MemoryLedger()
    ledger.add("webui", today, 100)
    assert refused(ledger, limits, 1, 0.0)[0] is Limit.DAY
    ledger = MemoryLedger()
    ledger.add("webui", today - 1, 100)
    granted(ledger, limits, 100, 0.0)


def test_each_of_several_gateways_has_its_share_and_says_so() -> None:
    ledger, limits = MemoryLedger(gateways=3), KeyLimits(requests_per_minute=7)
    granted(ledger, limits, 0, 0.0)
    assert granted(ledger, limits, 0, 0.0).figures.requests == Figure(2, 0, 61.0)
    verdict = reserve(ledger, limits, 0, 1.0)
    assert isinstance(verdict, Refusal)
    assert verdict.limits == KeyLimits(requests_per_minute=2)


# --- properties --------------------------------------------------------------------------------------


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0.01, 40)),
        st.tuples(st.just("begin"), st.integers(0, 60)),
        st.tuples(st.just("end"), st.floats(0, 1)),
        st.tuples(st.just("release"), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=120, deadline=None)
@given(
    st.builds(
        KeyLimits,
        st.none() | st.integers(1, 5),
        st.none() | st.integers(10, 100),
        st.none() | st.integers(50, 300),
        st.none() | st.integers(1, 3),
    ),
    ACTIONS,
)
def test_no_window_has_more_than_the_limit_and_every_token_is_accounted_for(
    limits: KeyLimits, actions: list[tuple[str, float]]
) -> None:
    """Requests that use at most what was reserved: at no time has any limit been exceeded, over any 60 seconds, and the
    counts are those of a plain list of all that happened."""
    ledger, now = MemoryLedger(), 0.0
    open_ones: list[tuple[Grant, int]] = []
    counted: list[tuple[float, int]] = []
    for what, amount in actions:
        if what == "wait":
            now += amount
        elif what == "begin":
            verdict = asyncio.run(ledger.reserve("webui", limits, int(amount), at(now)))
            if isinstance(verdict, Grant):
                open_ones.append((verdict, len(counted)))
                counted.append((now, int(amount)))
            else:
                assert _over(limits, verdict.limit, counted, open_ones, int(amount), now)
        elif open_ones:
            grant, place = open_ones.pop(0)
            began = counted[place][0]
            if what == "end":
                used = int(grant.tokens * amount)
                ledger.settle("webui", grant, used, at(now))
                counted[place] = (began, used)
            else:
                ledger.release("webui", grant, at(now))
                counted[place] = (-math.inf, 0)
        _check(limits, counted, open_ones)
        account = ledger.account("webui", at(now))
        assert account.used_today + account.reserved == sum(tokens for _, tokens in counted)
        assert account.open == len(open_ones)


def _check(limits: KeyLimits, counted: list[tuple[float, int]], open_ones: list[tuple[Grant, int]]) -> None:
    for start, _ in counted:
        within = [tokens for began, tokens in counted if start <= began <= start + SECONDS]
        if math.isfinite(start):
            assert limits.requests_per_minute is None or len(within) <= limits.requests_per_minute
            assert limits.tokens_per_minute is None or sum(within) <= limits.tokens_per_minute
    assert limits.tokens_per_day is None or sum(tokens for _, tokens in counted) <= limits.tokens_per_day
    assert limits.parallel_requests is None or len(open_ones) <= limits.parallel_requests


def _over(
    limits: KeyLimits,
    limit: Limit,
    counted: list[tuple[float, int]],
    open_ones: list[tuple[Grant, int]],
    tokens: int,
    now: float,
) -> bool:
    """Return whether a refusal was right, to the second by which windows count."""
    recent = [used for began, used in counted if began > now - SECONDS - 1]
    match limit:
        case Limit.PARALLEL:
            return len(open_ones) == limits.parallel_requests
        case Limit.REQUESTS:
            return limits.requests_per_minute is not None and len(recent) + 1 > limits.requests_per_minute
        case Limit.TOKENS:
            return limits.tokens_per_minute is not None and sum(recent) + tokens > limits.tokens_per_minute
        case Limit.DAY:
            used = sum(used for _, used in counted)
            return limits.tokens_per_day is not None and used + tokens > limits.tokens_per_day


@given(st.integers(1, 10_000), st.integers(1, 17))
def test_all_shares_together_are_no_more_than_the_limit_or_one_each(limit: int, gateways: int) -> None:
    share = share_of(KeyLimits(requests_per_minute=limit), gateways)
    assert share.requests_per_minute is not None
    assert share.requests_per_minute >= 1
    assert share.requests_per_minute * gateways <= max(limit, gateways)
    assert share.tokens_per_minute is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 20)), min_size=1, max_size=40), st.integers(20, 60))
def test_room_is_there_when_it_is_promised_and_not_before(taken: list[tuple[float, int]], limit: int) -> None:
    window, now = Window(), 0.0
    for wait, amount in taken:
        now += wait
        if not window.room_in(amount, limit, now):
            window.take(amount, now)
    seconds = window.room_in(limit, limit, now)
    assert 0 <= seconds <= SECONDS + 1
    if seconds > 0.01:
        assert window.room_in(limit, limit, now + seconds - 0.01) > 0
    assert window.room_in(limit, limit, now + seconds) == 0


# --- a clock that was wrong ------------------------------------------------------------------------

JUMPS = (3600.0, 13 * 3600.0, DAY_SECONDS, 2 * DAY_SECONDS, 30 * DAY_SECONDS, 365 * DAY_SECONDS)


@given(
    st.sampled_from([*JUMPS, *(-jump for jump in JUMPS)]),
    st.integers(0, 100),
    st.integers(0, 100),
    st.booleans(),
    st.integers(1, 3),
)
@settings(max_examples=300)
def test_a_clock_that_was_wrong_keeps_no_key_out_once_it_is_right(
    jump: float, before: int, meanwhile: int, restarted: bool, times: int
) -> None:
    """What was used by the right clock counts on its day; what was used by the wrong one on another day does not."""
    ledger, limits = MemoryLedger(), KeyLimits(tokens_per_day=100)

    def use(tokens: int, wall: float) -> bool:
        now = Moment(0.0, wall)
        verdict = asyncio.run(ledger.reserve("webui", limits, tokens, now))
        if isinstance(verdict, Grant):
            ledger.settle("webui", verdict, tokens, now)
        return isinstance(verdict, Grant)

    use(before, NOON)
    for _ in range(times):
        use(meanwhile, NOON + jump)
    if restarted:
        account = ledger.account("webui", Moment(0.0, NOON + jump))
        ledger = MemoryLedger()
        ledger.add("webui", account.day, account.used_today)
    same_day = (NOON + jump) // DAY_SECONDS == NOON // DAY_SECONDS
    counted = 0 if restarted and not same_day else before
    if same_day:
        for _ in range(times):
            counted += meanwhile if counted + meanwhile <= 100 else 0
    assert use(100 - counted, NOON)
    assert not use(1, NOON) or counted > 100
    assert use(100, NOON + 2 * abs(jump) + 2 * DAY_SECONDS), "another day has another budget"


def test_a_clock_that_steps_over_midnight_and_back_gives_no_second_budget() -> None:
    ledger, limits = MemoryLedger(), KeyLimits(tokens_per_day=100)
    midnight = 20_001 * DAY_SECONDS
    for step in range(10):
        now = Moment(float(step), midnight + (1 if step % 2 else -1))
        verdict = asyncio.run(ledger.reserve("webui", limits, 100, now))
        assert isinstance(verdict, Grant) is (step < 2), "one for each day"
        if isinstance(verdict, Grant):
            ledger.settle("webui", verdict, 100, now)
