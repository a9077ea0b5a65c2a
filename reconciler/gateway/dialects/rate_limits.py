"""The rest of a key's limits, in the headers that SDKs and agents read. Pure."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence

from reconciler.gateway.figures import Figure, Figures

Headers = Sequence[tuple[bytes, bytes]]

_Names = tuple[bytes, bytes, bytes]
"""Of the headers with a limit, its rest, and the time when it is whole again."""
_OPENAI: tuple[_Names, _Names] = (
    (b"x-ratelimit-limit-requests", b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-requests"),
    (b"x-ratelimit-limit-tokens", b"x-ratelimit-remaining-tokens", b"x-ratelimit-reset-tokens"),
)
_ANTHROPIC: tuple[_Names, _Names] = (
    (
        b"anthropic-ratelimit-requests-limit",
        b"anthropic-ratelimit-requests-remaining",
        b"anthropic-ratelimit-requests-reset",
    ),
    (
        b"anthropic-ratelimit-tokens-limit",
        b"anthropic-ratelimit-tokens-remaining",
        b"anthropic-ratelimit-tokens-reset",
    ),
)


def openai_headers(figures: Figures) -> Headers:
    """Return them as OpenAI writes them: ``x-ratelimit-remaining-tokens``, with times such as ``6m0s``
    (https://platform.openai.com/docs/guides/rate-limits, "Rate limits in headers")."""
    return [
        header
        for (limit, remaining, reset), figure in _figures(figures, _OPENAI)
        for header in (
            (limit, b"%d" % figure.limit),
            (remaining, b"%d" % figure.remaining),
            (reset, _duration(figure.reset_seconds).encode()),
        )
    ]


def anthropic_headers(figures: Figures) -> Headers:
    """Return them as Anthropic writes them: ``anthropic-ratelimit-tokens-remaining``, with times in RFC 3339
    (https://docs.anthropic.com/en/api/rate-limits, "Response headers")."""
    return [
        header
        for (limit, remaining, reset), figure in _figures(figures, _ANTHROPIC)
        for header in (
            (limit, b"%d" % figure.limit),
            (remaining, b"%d" % figure.remaining),
            (reset, _moment(figures.now + figure.reset_seconds).encode()),
        )
    ]


def _figures(figures: Figures, names: tuple[_Names, _Names]) -> Iterator[tuple[_Names, Figure]]:
    if figures.requests is not None:
        yield names[0], figures.requests
    if figures.tokens is not None:
        yield names[1], figures.tokens


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    whole = math.ceil(seconds)
    hours, minutes = divmod(whole // 60, 60)
    parts = [f"{hours}h"] if hours else []
    parts += [f"{minutes}m"] if hours or minutes else []
    return "".join([*parts, f"{whole % 60}s"])


def _moment(wall: float) -> str:
    return datetime.datetime.fromtimestamp(math.ceil(wall), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
