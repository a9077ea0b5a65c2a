"""The counts of keys as Prometheus reads them: counters that go down look like those of a process that began anew."""

from __future__ import annotations

from reconciler.gateway.keys.ledger import DAY_SECONDS
from reconciler.gateway.keys.usage import Book, KeyMetrics, Usage
from reconciler.wire.keys import KeyUsage

DAY = 20_000
NOON = float(DAY * DAY_SECONDS + DAY_SECONDS // 2)


def requests(book: Book) -> float:
    """The counter of requests of the one key that there is."""
    families = {family.name: family for family in KeyMetrics(book, lambda: NOON).collect()}
    (sample,) = families["reconciler_key_requests"].samples
    return sample.value


def test_a_request_of_before_a_restart_is_not_taken_from_nothing() -> None:
    book = Book()
    book.add(KeyUsage("webui", DAY, 0, 1, int(NOON)))
    book.never_began("webui", NOON)
    assert requests(book) == 0
    assert book.snapshot()[0].requests == 0


def test_the_counter_of_requests_never_goes_down_and_counts_those_that_began() -> None:
    book, seen = Book(), []
    for _ in range(3):
        book.began("webui", NOON)
        seen.append(requests(book))
    book.ended("webui", Usage(3, 1), NOON)
    seen.append(requests(book))
    book.never_began("webui", NOON)
    seen.append(requests(book))
    book.ended("webui", Usage(), NOON)
    seen.append(requests(book))
    assert seen == sorted(seen)
    assert seen[-1] == 2
    assert book.snapshot()[0].requests == 2


def test_the_counts_of_a_day_are_those_of_the_clock_also_when_it_was_ahead() -> None:
    book = Book()
    today, ahead = 20_000 * DAY_SECONDS + 100.0, 20_365 * DAY_SECONDS + 100.0
    for wall, tokens in ((today, 5), (ahead, 70), (today, 1)):
        book.began("webui", wall)
        book.ended("webui", Usage(prompt=tokens), wall)
    (found,) = book.snapshot()
    assert (found.day, found.tokens, found.requests) == (20_000, 6, 2)
