"""What a key has left, in the headers that SDKs and agents read. Pure."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence

from reconciler.gateway.figures import Figure, Figures

Headers = Sequence[tuple[bytes, bytes]]


def openai_headers(figures: Figures) -> Headers:
    """Return them as OpenAI writes them: ``x-ratelimit-remaining-tokens``, with times such as ``6m0s``
    (https://platform.openai.com/docs/guides/rate-limits, "Rate limits in headers")."""
    return [
        (f"x-ratelimit-{which}-{what}".encode(), value.encode())
        for what, figure in _figures(figures)
        for which, value in (
            ("limit", str(figure.limit)),
            ("remaining", str(figure.remaining)),
            ("reset", _duration(figure.reset_seconds)),
        )
    ]


def anthropic_headers(figures: Figures) -> Headers:
    """Return them as Anthropic writes them: ``anthropic-ratelimit-tokens-remaining``, with times in RFC 3339
    (https://docs.anthropic.com/en/api/rate-limits, "Response headers")."""
    return [
        (f"anthropic-ratelimit-{what}-{which}".encode(), value.encode())
        for what, figure in _figures(figures)
        for which, value in (
            ("limit", str(figure.limit)),
            ("remaining", str(figure.remaining)),
            ("reset", _moment(figures.now + figure.reset_seconds)),
        )
    ]


def _figures(figures: Figures) -> Iterator[tuple[str, Figure]]:
    if figures.requests is not None:
        yield "requests", figures.requests
    if figures.tokens is not None:
        yield "tokens", figures.tokens


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
