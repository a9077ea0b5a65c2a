"""The rest of a key's limits, in the headers that SDKs and agents read. Pure."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence

from reconciler.gateway.figures import Figures

Headers = Sequence[tuple[bytes, bytes]]


def openai_headers(figures: Figures) -> Headers:
    """Return them as OpenAI writes them: ``x-ratelimit-remaining-tokens``, with times such as ``6m0s``
    (https://platform.openai.com/docs/guides/rate-limits, "Rate limits in headers")."""
    return _headers(figures, "x-ratelimit-{number}-{unit}", _duration)


def anthropic_headers(figures: Figures) -> Headers:
    """Return them as Anthropic writes them: ``anthropic-ratelimit-tokens-remaining``, with times in RFC 3339
    (https://docs.anthropic.com/en/api/rate-limits, "Response headers")."""
    return _headers(
        figures, "anthropic-ratelimit-{unit}-{number}", lambda seconds: _moment(figures.now + seconds)
    )


def _headers(figures: Figures, name: str, moment: Callable[[float], str]) -> Headers:
    """Return each limit, its rest, and the time when it is whole again."""
    return [
        (name.format(number=number, unit=unit).encode(), str(value).encode())
        for unit, figure in (("requests", figures.requests), ("tokens", figures.tokens))
        if figure is not None
        for number, value in (
            ("limit", figure.limit),
            ("remaining", figure.remaining),
            ("reset", moment(figure.reset_seconds)),
        )
    ]


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
