"""Times in the headers with limits."""

from __future__ import annotations

import pytest

from reconciler.gateway.dialects.rate_limits import anthropic_headers
from reconciler.gateway.figures import Figure, Figures
from tests.zones import ZONES, in_zone


@pytest.mark.parametrize("zone", ZONES)
def test_the_time_of_a_reset_is_in_utc_in_every_time_zone(zone: str) -> None:
    figures = Figures(Figure(10, 3, 5.5), Figure(1000, 0, 60.0), now=86_400.0)
    with in_zone(zone):
        found = dict(anthropic_headers(figures))

    assert found[b"anthropic-ratelimit-requests-reset"] == b"1970-01-02T00:00:06Z"
    assert found[b"anthropic-ratelimit-tokens-reset"] == b"1970-01-02T00:01:00Z"
