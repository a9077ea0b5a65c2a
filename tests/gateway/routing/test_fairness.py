"""Whose request goes next: rules without sockets and clocks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.gateway.errors import ApiError
from reconciler.gateway.routing.fairness import (
    FIRST_LOOKS_SECONDS,
    GIVES_WAY_MAX,
    LOOKS_SECONDS,
    SHORT_TOKENS,
    TOKENS_PER_TURN,
    Turn,
    Turns,
)

GROUP, OTHER = "the only group", "another group"


class Asked:
    """A request of a client, and what is asked of it."""

    def __init__(self, turns: Turns, client: str, tokens_max: int | None = None) -> None:
        self.tokens = 0
        self.woken = 0
        self.gave_way = 0
        self.turns = turns
        self.turn: Turn = turns.turn("llama", client, tokens_max, self)

    def wake(self) -> None:
        self.woken += 1

    def give_way(self) -> None:
        self.gave_way += 1

    def goes(self, batch: int = 2, group: str = GROUP) -> bool:
        """Whether it gets a place now."""
        return self.turns.take(self.turn, group, batch) is None


def going(turns: Turns, *clients: str, batch: int = 2, tokens: int = TOKENS_PER_TURN) -> list[Asked]:
    """Long requests of these clients, which have a place and some tokens."""
    asked = [Asked(turns, client) for client in clients]
    for each in asked:
        assert each.goes(batch)
        each.tokens = tokens
    return asked


def test_a_group_gets_as_many_as_it_decodes_together_and_the_next_when_one_has_ended() -> None:
    turns = Turns(9)
    first, second = going(turns, "a", "a")
    third = Asked(turns, "a")
    assert not third.goes()
    turns.leave(first.turn)
    assert third.woken == 1
    assert third.goes()
    assert not Asked(turns, "a").goes()
    assert second.gave_way == 0


def test_an_unknown_batch_has_no_bound() -> None:
    turns = Turns(0)
    assert all(Asked(turns, "a").goes(batch=0) for _ in range(50))


def test_each_group_has_its_own_places() -> None:
    turns = Turns(9)
    going(turns, "a", "a")
    assert Asked(turns, "a").goes(group=OTHER)


def test_the_client_with_the_fewest_goes_first_and_then_who_came_first() -> None:
    turns = Turns(9)
    busy = going(turns, "a", "a", "b", tokens=0, batch=3)
    waiting = [Asked(turns, client) for client in ("a", "b", "a", "c")]
    assert [each.goes(batch=3) for each in waiting] == [False] * 4
    a1, b1, a2, c1 = waiting
    for leaves, goes in ((busy[2], b1), (b1, c1), (busy[0], a1), (c1, a2)):
        turns.leave(leaves.turn)
        assert [each for each in waiting if each.goes(batch=3)] == [goes]
        waiting.remove(goes)


def test_nobody_overtakes_who_was_there_before() -> None:
    turns = Turns(9)
    first, _ = going(turns, "a", "a", tokens=0)
    waiting, late = Asked(turns, "a"), Asked(turns, "a")
    assert not waiting.goes()
    turns.leave(first.turn)
    assert not late.goes()
    assert waiting.woken == 2
    assert waiting.goes()


def test_a_short_request_takes_the_place_of_the_long_one_that_costs_least() -> None:
    turns = Turns(9)
    dear, cheap = going(turns, "a", "a")
    dear.turn.prompt, cheap.turn.prompt = 500, 100
    short = Asked(turns, "a", SHORT_TOKENS)
    assert short.goes()
    assert [dear.gave_way, cheap.gave_way] == [0, 1]
    assert not cheap.goes()
    turns.leave(short.turn)
    assert cheap.woken
    assert cheap.goes()


def test_short_requests_take_a_quarter_of_the_places_and_no_more() -> None:
    turns = Turns(99)
    long = going(turns, *["a"] * 8, batch=8)
    short = [Asked(turns, "a", 4) for _ in range(5)]
    assert [each.goes(batch=8) for each in short] == [True, True, False, False, False]
    assert sum(each.gave_way for each in long) == 2
    turns.leave(short[0].turn)
    assert short[2].woken
    assert short[2].goes(batch=8)
    assert not Asked(turns, "a").goes(batch=8)


@pytest.mark.parametrize("batch", [1, 2, 4, 7])
def test_of_few_places_short_requests_take_one(batch: int) -> None:
    turns = Turns(9)
    going(turns, *["a"] * batch, batch=batch)
    first, second = Asked(turns, "a", 4), Asked(turns, "a", 4)
    assert first.goes(batch)
    assert not second.goes(batch)
    turns.leave(first.turn)
    assert second.goes(batch)


@pytest.mark.parametrize(("tokens_max", "short"), [(64, True), (65, False), (None, False)])
def test_a_request_for_at_most_64_tokens_is_short(tokens_max: int | None, short: bool) -> None:
    assert Asked(Turns(9), "a", tokens_max).turn.short is short


@pytest.mark.parametrize(
    ("got", "again", "gives_way"), [(15, 0, False), (16, 0, True), (16, 4096, True), (16, 4097, False)]
)
def test_a_long_answer_gives_way_after_16_tokens_if_at_most_4096_are_read_again(
    got: int, again: int, gives_way: bool
) -> None:
    turns = Turns(9)
    (long,) = going(turns, "a", batch=1, tokens=got)
    long.turn.prompt = max(0, again - got)
    assert Asked(turns, "b", SHORT_TOKENS).goes(batch=1) is gives_way
    assert long.gave_way == gives_way


def test_a_client_takes_the_place_of_one_that_has_two_more() -> None:
    turns = Turns(9)
    many = going(turns, "a", "a", "a", batch=3)
    first, second = Asked(turns, "b"), Asked(turns, "b")
    assert first.goes(batch=3)
    assert not second.goes(batch=3)
    assert sum(each.gave_way for each in many) == 1
    assert Asked(turns, "c").goes(batch=3)
    assert not Asked(turns, "d").goes(batch=3)
    assert sum(each.gave_way for each in many) == 2


def test_who_has_just_begun_does_not_give_way_yet_and_the_first_that_waits_looks_soon() -> None:
    turns = Turns(9)
    (long,) = going(turns, "a", batch=1, tokens=TOKENS_PER_TURN - 1)
    short, later = Asked(turns, "a", 4), Asked(turns, "a")
    assert turns.take(short.turn, GROUP, 1) == FIRST_LOOKS_SECONDS
    assert turns.take(later.turn, GROUP, 1) == LOOKS_SECONDS
    assert 0 < 10 * FIRST_LOOKS_SECONDS <= LOOKS_SECONDS, "a thousand may wait behind it"
    long.tokens += 1
    assert short.goes(batch=1)
    assert long.gave_way == 1


def test_a_request_gives_way_only_so_often_and_gets_tokens_in_between() -> None:
    turns = Turns(9)
    (long,) = going(turns, "a", batch=1)
    for _ in range(GIVES_WAY_MAX):
        short, early = Asked(turns, "a", 4), Asked(turns, "a", 4)
        assert short.goes(batch=1)
        turns.leave(short.turn)
        assert long.goes(batch=1)
        assert not early.goes(batch=1)
        turns.leave(early.turn)
        long.tokens += TOKENS_PER_TURN
    assert not Asked(turns, "a", 4).goes(batch=1)
    assert long.gave_way == GIVES_WAY_MAX


def test_whose_client_does_not_read_gives_way_to_anybody_until_it_reads() -> None:
    turns = Turns(9)
    reads, unread = going(turns, "a", "a", tokens=1)
    waits = Asked(turns, "a")
    assert not waits.goes()
    turns.read(unread.turn, unread=True)
    assert waits.woken == 1
    assert waits.goes()
    assert [reads.gave_way, unread.gave_way] == [0, 1]


def test_what_nobody_reads_keeps_its_place_until_somebody_asks_for_it() -> None:
    turns = Turns(9)
    (unread,) = going(turns, "a", batch=1, tokens=1)
    unread.turn.prompt = 100_000
    turns.read(unread.turn, unread=True)
    assert unread.gave_way == 0
    assert Asked(turns, "a").goes(batch=1)
    assert unread.gave_way == 1


def test_what_nobody_reads_gives_way_only_so_often_too() -> None:
    turns = Turns(9)
    unread, _ = going(turns, "a", "b", tokens=1)
    unread.turn.gave_way = GIVES_WAY_MAX
    turns.read(unread.turn, unread=True)
    assert unread.gave_way == 0
    assert not Asked(turns, "c").goes()


def test_whoever_goes_wakes_the_next_as_there_may_be_another_place() -> None:
    turns = Turns(9)
    busy = going(turns, "a", "a", tokens=0)
    first, second = Asked(turns, "b"), Asked(turns, "b")
    assert not first.goes()
    assert not second.goes()
    for each in busy:
        turns.leave(each.turn)
    assert second.woken == 0
    assert first.goes()
    assert second.woken == 1
    assert second.goes()


def test_nothing_is_kept_of_requests_that_have_ended() -> None:
    turns = Turns(9)
    for each in going(turns, "a", "b"):
        turns.leave(each.turn)
    assert not turns._places
    assert not turns._in_flight


def test_a_group_leaves_what_nobody_reads_as_soon_as_it_has_anything_else() -> None:
    turns = Turns(9)
    first, second, third = going(turns, "a", "a", "b", batch=9, tokens=0)
    for each in (first, second, third):
        turns.read(each.turn, unread=True)
    assert [each.gave_way for each in (first, second, third)] == [1, 1, 0]
    assert Asked(turns, "c").goes(batch=9)
    assert third.gave_way == 1


def test_an_answer_that_has_ended_leaves_its_place_although_nobody_has_read_it() -> None:
    turns = Turns(9)
    (first,) = going(turns, "a", batch=1, tokens=1)
    turns.read(first.turn, unread=True)
    turns.leave(first.turn)
    turns.leave(first.turn)
    assert Asked(turns, "b").goes(batch=1)
    assert first.gave_way == 0


def test_only_so_many_wait_and_one_client_has_a_part_of_them() -> None:
    turns = Turns(4)
    going(turns, "a", "a", tokens=0)
    for _ in range(3):
        assert not Asked(turns, "a").goes()
    with pytest.raises(ApiError) as refused:
        Asked(turns, "a").goes()
    assert (refused.value.status, refused.value.code) == (503, "overloaded")
    assert not Asked(turns, "b").goes()
    with pytest.raises(ApiError):
        Asked(turns, "c").goes()


def test_an_answer_that_has_begun_may_always_wait() -> None:
    turns = Turns(0)
    (long,) = going(turns, "a", batch=1)
    short = Asked(turns, "a", 4)
    assert short.goes(batch=1)
    assert not long.goes(batch=1)


def test_models_do_not_wait_for_each_other() -> None:
    turns = Turns(9)
    going(turns, "a", "a", tokens=0)
    assert not Asked(turns, "a").goes()
    other = Asked(turns, "a")
    other.turn.model = "qwen"
    assert turns.take(other.turn, OTHER, 1) is None
    early, late = Asked(turns, "z"), Asked(turns, "z")
    assert not early.goes()
    late.turn.model = "qwen"
    assert turns.take(late.turn, "a third group", 1) is None


def test_after_a_change_of_groups_the_first_of_each_model_looks() -> None:
    turns = Turns(9)
    going(turns, "a", "a", tokens=0)
    first, second = Asked(turns, "a"), Asked(turns, "a")
    assert not first.goes()
    assert not second.goes()
    turns.look_again()
    assert [first.woken, second.woken] == [1, 0]


LONG, SHORT = ("a", False), ("a", True)


@example(batch=4, asked=[*[LONG] * 4, ("b", True), SHORT, ("c", False)], ends=[0, 0, 0])
@example(batch=8, asked=[*[LONG] * 8, ("c", False), *[SHORT] * 3, ("b", False)], ends=[0, 0, 0, 0, 0])
@example(batch=1, asked=[LONG, ("b", False), SHORT, SHORT], ends=[0, 0, 0])
@example(batch=2, asked=[LONG, ("b", False), LONG, ("b", False), ("b", False)], ends=[0, 1, 0])
@given(
    batch=st.integers(1, 9),
    asked=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=30),
    ends=st.lists(st.integers(0, 8), max_size=30),
)
def test_the_next_is_short_while_few_are_then_of_the_client_with_the_fewest_then_the_oldest(
    batch: int, asked: list[tuple[str, bool]], ends: list[int]
) -> None:
    """Each place that becomes free, compared with the two rules written down once more. Nobody gives way: no answer has
    any tokens yet."""
    turns = Turns(len(asked) * 2)
    all_of_them = [Asked(turns, client, SHORT_TOKENS if short else None) for client, short in asked]
    going: list[Asked] = []
    waiting: list[Asked] = []
    for each in all_of_them:
        (going if each.goes(batch) else waiting).append(each)
    assert going == all_of_them[:batch], "nobody waits while there is room"

    for end in ends if waiting else ():
        left = going.pop(end % len(going))
        for each in waiting:
            each.woken = 0
        turns.leave(left.turn)
        few_are_short = sum(each.turn.short for each in going) < max(1, batch // 4)
        clients = Counter(each.turn.client for each in going)
        _, _, at = min(
            (not (few_are_short and each.turn.short), clients[each.turn.client], all_of_them.index(each))
            for each in waiting
        )
        following = all_of_them[at]
        assert following.woken, "it is told at once"
        assert [each for each in waiting if each is not following and each.goes(batch)] == []
        assert following.goes(batch)
        waiting.remove(following)
        going.append(following)
        if not waiting:
            break
