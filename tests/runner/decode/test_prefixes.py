"""Which tokens the prefix cache finds, and which of its entries go."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from reconciler.runner.decode.prefixes import LENGTH_MIN, Prefixes, packed, shared_length
from reconciler.runner.model.caches import ANY, EXACT, NOT, Footprint
from reconciler.wire.generation import KeptPrefixes
from reconciler.wire.group import Prefix

SYSTEM = list(range(1000, 1100))


def cache(tokens_max: int, reuse: int = ANY) -> Prefixes:
    """One with room for so many tokens."""
    return Prefixes(Footprint(reuse, (((0, 8),), ((0, 10),))), 10 * tokens_max)


def found(prefixes: Prefixes, tokens: Sequence[int]) -> int:
    """How many tokens of a prompt need not be read."""
    match = prefixes.find(packed(tokens))
    return match[1] if match else 0


def turn(conversation: int, length: int) -> list[int]:
    """What a conversation has after its system prompt, as long as wished."""
    return [conversation * 1000 + at for at in range(length)]


def test_a_prompt_reuses_what_it_has_in_common_with_any_entry_but_its_own_last_token() -> None:
    prefixes = cache(1000)
    prefixes.offer(0, packed(SYSTEM + turn(1, 50)))
    prefixes.offer(1, packed(SYSTEM + turn(2, 50)))
    assert found(prefixes, SYSTEM + turn(1, 50) + [7]) == 150
    assert found(prefixes, SYSTEM + turn(1, 30) + [7]) == 130
    assert found(prefixes, SYSTEM + turn(3, 50)) == 100
    assert found(prefixes, SYSTEM + turn(2, 50)) == 149
    assert found(prefixes, SYSTEM[1:]) == 0


def test_what_can_be_reused_only_as_a_whole_is_found_where_it_was_cut() -> None:
    prefixes = cache(1000, EXACT)
    prefixes.offer(0, packed(SYSTEM))
    prefixes.offer(1, packed(SYSTEM + turn(1, 50)))
    prefixes.offer(2, packed(SYSTEM + turn(2, 10)))
    assert found(prefixes, SYSTEM + turn(1, 50) + [7]) == 150
    assert found(prefixes, SYSTEM + turn(1, 50)) == 100, "its last token is to be computed"
    assert found(prefixes, SYSTEM + turn(1, 49) + [7]) == 100
    assert found(prefixes, SYSTEM[:99]) == 0


def test_the_next_turn_takes_the_place_of_the_turn_before_with_its_uses() -> None:
    prefixes = cache(1000)
    for uid in range(5):
        prefixes.offer(uid, packed(SYSTEM + turn(1, 20 * uid)))
    assert prefixes.names == {Prefix(4, 180)}
    assert prefixes.bytes == 1800
    prefixes.offer(5, packed(SYSTEM + turn(1, 60)))
    assert prefixes.names == {Prefix(4, 180)}, "it is there already"


def test_with_a_bound_of_0_and_of_a_model_that_cannot_nothing_is_kept() -> None:
    for prefixes in (cache(0), cache(1000, NOT)):
        prefixes.offer(0, packed(SYSTEM))
        assert (len(prefixes), prefixes.bytes, prefixes.length_max) == (0, 0, 0)
        assert prefixes.find(packed([*SYSTEM, 1])) is None


def test_of_a_conversation_larger_than_the_bound_its_beginning_is_kept_where_that_can_be_used() -> None:
    prefixes = cache(40)
    prefixes.offer(0, packed(SYSTEM))
    assert prefixes.names == {Prefix(0, 40)}
    assert found(prefixes, SYSTEM) == 40
    whole = cache(40, EXACT)
    whole.offer(0, packed(SYSTEM))
    assert whole.names == set()


def test_of_ten_conversations_that_fit_the_eleventh_takes_the_place_of_one_nobody_came_back_to() -> None:
    prefixes = cache(10 * 150)
    for uid in range(10):
        prefixes.offer(uid, packed(turn(uid + 1, 150)))
    assert prefixes.evictions == 0
    for uid in range(10):
        if uid != 6:
            assert prefixes.use(packed([*turn(uid + 1, 150), 7])) == (Prefix(uid, 150), 150)
    prefixes.offer(10, packed(turn(11, 150)))
    assert prefixes.kept == KeptPrefixes(bytes=15_000, bytes_max=15_000, entries=10, evictions=1)
    assert {name.uid for name in prefixes.names} == {*range(11)} - {6}


def test_what_was_used_often_long_ago_goes_before_long() -> None:
    prefixes = cache(3 * 100)
    prefixes.offer(0, packed(turn(1, 100)))
    for _ in range(3):
        prefixes.use(packed([*turn(1, 100), 7]))
    for uid in range(1, 12):
        prefixes.offer(uid, packed(turn(uid + 1, 100)))
    assert 0 not in {name.uid for name in prefixes.names}


def test_what_was_used_a_moment_ago_stays_while_others_come_and_go() -> None:
    prefixes, last = cache(3 * 100), 11
    prefixes.offer(0, packed(turn(1, 100)))
    for _ in range(5):
        prefixes.use(packed([*turn(1, 100), 7]))
    for uid in range(1, last):
        prefixes.offer(uid, packed(turn(uid + 1, 100)))
    assert prefixes.use(packed([*turn(1, 100), 7])) == (Prefix(0, 100), 100)
    for uid in range(last, last + 10):
        prefixes.offer(uid, packed(turn(uid + 1, 100)))
        assert 0 in {name.uid for name in prefixes.names}, uid


def test_a_system_prompt_stays_while_conversations_that_begin_with_it_go() -> None:
    prefixes = cache(3 * 150)
    prefixes.offer(0, packed(SYSTEM + turn(1, 50)))
    prefixes.offer(1, packed(SYSTEM + turn(2, 50)))
    prefixes.offer(2, packed(turn(3, 150)))
    prefixes.offer(3, packed(turn(4, 150)))
    prefixes.use(packed([*turn(3, 150), 7]))
    prefixes.use(packed([*turn(4, 150), 7]))
    assert prefixes.evictions == 1
    assert found(prefixes, SYSTEM + turn(5, 50)) == 100


LETTERS = some.lists(some.integers(0, 2), max_size=60)


@given(LETTERS, LETTERS)
def test_tokens_are_compared_one_by_one(one: list[int], other: list[int]) -> None:
    expected = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    assert shared_length(packed(one), packed(other)) == expected
    assert (packed(one) < packed(other)) == (one < other)


@settings(max_examples=150, deadline=None)
@given(
    some.lists(
        some.tuples(some.booleans(), some.integers(0, 3), some.lists(some.integers(0, 1), max_size=40))
    ),
    some.integers(0, 150),
    some.sampled_from([ANY, EXACT]),
)
def test_the_bound_holds_and_what_is_found_is_there(
    calls: list[tuple[bool, int, list[int]]], room: int, reuse: int
) -> None:
    prefixes, again = cache(room, reuse), cache(room, reuse)
    held: dict[Prefix, list[int]] = {}
    for uid, (offered, head, tail) in enumerate(calls):
        tokens = [head] * 20 + tail
        for one in (prefixes, again):
            if offered:
                one.offer(uid, packed(tokens))
            else:
                one.use(packed(tokens))
        held.update((name, tokens[: name.length]) for name in prefixes.names - held.keys())
        held = {name: held[name] for name in prefixes.names}
        assert again.names == prefixes.names
        assert prefixes.bytes == sum(10 * name.length for name in held) <= 10 * room
        assert len(prefixes._common) == len(prefixes)
        _compare(prefixes, [*tokens, 1], held, reuse)


def _compare(prefixes: Prefixes, tokens: list[int], held: dict[Prefix, list[int]], reuse: int) -> None:
    """What is found is what looking at every entry finds."""
    most = 0
    for entry in held.values():
        shared = min(shared_length(packed(entry), packed(tokens)), len(tokens) - 1)
        if reuse == ANY or shared == len(entry):
            most = max(most, shared)
    match = prefixes.find(packed(tokens))
    assert (match[1] if match else 0) == (most if most >= LENGTH_MIN else 0)
    if match:
        assert held[match[0]][: match[1]] == tokens[: match[1]]


@pytest.mark.parametrize(("size", "expected"), [(9, 0), (10, 1), (10 * 1234, 1234), (10 * 1235 - 1, 1234)])
def test_as_many_tokens_fit_as_the_rank_that_needs_the_most_has_room_for(size: int, expected: int) -> None:
    assert Footprint(ANY, (((0, 8),), ((0, 10),))).fitting(size) == expected


def test_windows_and_states_stop_to_grow() -> None:
    footprint = Footprint(EXACT, (((0, 2), (1, 500), (64, 8)),))
    assert [footprint.bytes(tokens) for tokens in (1, 64, 100)] == [510, 1140, 1212]
