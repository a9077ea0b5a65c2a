"""The limits that the page on the endpoint tells are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.gateway.http.request_body import BODY_BYTES_MAX
from reconciler.gateway.routing.fairness import (
    COST_MAX,
    GIVES_WAY_MAX,
    SHORT_TOKENS,
    TOKENS_PER_TURN,
    WAITING_SHARE,
)
from reconciler.gateway.routing.timeouts import Timing
from reconciler.runner.decode.pacing import ALONE_SECONDS
from reconciler.serving.limiter import ConnectionLimits
from reconciler.serving.protocol import HEAD_BYTES_MAX
from reconciler.wire.launch import PIECE_TOKENS_MAX

PAGE = (Path(__file__).parents[3] / "docs" / "endpoint.md").read_text()
WORDS = " ".join(PAGE.split())
TIMING, LIMITS = Timing(), ConnectionLimits.of(100_000)


def row(what: str) -> str:
    """The limit in a row of the table."""
    (found,) = re.findall(rf"^\| {re.escape(what)} \| (.*?) \|", PAGE, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("line and headers of a request", f"{HEAD_BYTES_MAX >> 10} KiB"),
        ("body, as it is sent and decoded", f"{BODY_BYTES_MAX >> 20} MiB"),
        ("time to send line and headers; to send the body", f"{LIMITS.head_seconds:g} s; {TIMING.body:g} s"),
        ("time between two requests on a connection", f"{LIMITS.idle_seconds:g} s"),
        ("requests that wait for a group, or for a place in its batch", f"{TIMING.held_max}"),
        ("the same, of one client", f"{TIMING.held_max * WAITING_SHARE:g}"),
        ("a stream that its client does not read", f"{LIMITS.unread_end_seconds:g} s without reading a byte"),
    ],
)
def test_the_table_has_the_limit(what: str, limit: str) -> None:
    assert row(what) == limit


@pytest.mark.parametrize(
    "words",
    [
        f"A stream that pauses for {TIMING.keep_alive:g} seconds",
        f"A request for at most {SHORT_TOKENS} tokens",
        f"if it is for at most {SHORT_TOKENS} tokens itself",
        f"A request gives way only after at least {TOKENS_PER_TURN} tokens",
        f"and with at most {COST_MAX} including its prompt",
        f"If a client has read nothing for {LIMITS.unread_seconds:g} seconds",
        f"A request gives way at most {GIVES_WAY_MAX} times",
        f"part has {PIECE_TOKENS_MAX:,} tokens, or as many as take {ALONE_SECONDS:g} seconds",
    ],
)
def test_the_text_has_the_figure(words: str) -> None:
    assert words in WORDS


def test_connections_are_seven_in_eight_of_the_descriptors_and_of_many_all_but_so_many() -> None:
    few, many = ConnectionLimits.of(8192), ConnectionLimits.of(100_000)
    assert few.in_all == 8192 * 7 // 8
    assert row("connections in all") == (
        f"seven in eight of the descriptors; of many, all but {100_000 - many.in_all}"
    )
    assert [each.of_one for each in (few, many)] == [few.in_all * 7 // 8, (many.in_all * 7 + 7) // 8]
