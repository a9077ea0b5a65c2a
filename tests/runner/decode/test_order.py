"""In which order prompts are read, and which together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reconciler.runner.decode.inbox import Ticket
from reconciler.runner.decode.order import PASSED_OVER_MAX, Order, together
from tests.runner.ranks import GREEDY

ANSWER: Any = None


def ticket(number: int, length: int, client: str = "", read: int = 0) -> Ticket:
    return Ticket(
        "", (5,) * length, 9, 0, GREEDY, ANSWER, uid=number, client=client, number=number, read=read
    )


def read_in_steps(tickets: Sequence[Ticket], budget: int) -> list[int]:
    """The numbers of requests in the order in which their prompts have been read."""
    order, ended, unread = Order(), [], list(tickets)
    while unread:
        left = budget
        for one in order.of(unread):
            one.passed_over += 1
            tokens = min(left, one.unread)
            if tokens:
                order.read(one, tokens)
                one.read += tokens
                left -= tokens
            if not one.unread:
                ended.append(one.number)
        unread = [one for one in unread if one.unread]
    return ended


def test_of_one_client_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    assert read_in_steps([ticket(0, 8000, read=2000), ticket(1, 100)], 1000) == [1, 0]


def test_long_prompts_of_one_client_are_read_one_after_the_other() -> None:
    assert read_in_steps([ticket(number, 3000) for number in range(3)], 1000) == [0, 1, 2]


def test_a_client_with_many_prompts_delays_another_by_no_more_than_one_step() -> None:
    many = [ticket(number, 1000, "many") for number in range(50)]
    one = ticket(50, 1000, "one")
    assert read_in_steps([*many, one], 1000).index(50) <= 1


def test_clients_get_as_many_tokens_as_each_other() -> None:
    long = [ticket(0, 10_000, "a"), ticket(1, 10_000, "b")]
    order = Order()
    for _ in range(10):
        first = order.of(long)[0]
        order.read(first, 1000)
        first.read += 1000
    assert [one.read for one in long] == [5000, 5000]


def test_who_comes_later_does_not_catch_up_with_what_was_read_before() -> None:
    order, old, new = Order(), ticket(0, 9000, "old"), ticket(1, 9000, "new")
    for _ in range(5):
        order.of([old])
        order.read(old, 1000)
        old.read += 1000
    turns = []
    for _ in range(4):
        first = order.of([old, new])[0]
        order.read(first, 1000)
        first.read += 1000
        turns.append(first.client)
    assert turns == ["new", "old", "new", "old"]


def test_none_is_passed_over_for_long() -> None:
    order, long = Order(), ticket(0, 100_000, read=20_000)
    for number in range(1, PASSED_OVER_MAX + 1):
        short = ticket(number, 10)
        assert order.of([long, short])[0] is short
        long.passed_over += 1
    assert order.of([long, ticket(99, 10)])[0] is long


def test_prompts_of_one_length_are_read_together_and_others_apart() -> None:
    prompts = [ticket(number, length) for number, length in enumerate((30, 40, 35, 900, 1000, 1, 1))]
    groups = together(prompts, lambda uids: True)
    assert [[one.uid for one in group] for group in groups] == [[5, 6], [0, 2, 1], [3, 4]]


def test_prompts_that_have_no_room_together_are_read_apart() -> None:
    prompts = [ticket(number, 30) for number in range(5)]
    groups = together(prompts, lambda uids: len(uids) <= 2)
    assert [len(group) for group in groups] == [2, 2, 1]
