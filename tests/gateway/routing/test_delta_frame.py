"""A delta that is read with less than the codec: it is the one that the codec would have made."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.routing.delta_frame import plain_delta
from reconciler.runner.requests.event_frames import event_frame
from reconciler.wire.codec import WireError, decode
from reconciler.wire.generation import GATEWAY_RECEIVES, CallPart, Delta, Failed

TOKENS = st.lists(st.integers(0, 2**31)).map(tuple)
TEXT = st.text()
DELTAS = st.builds(Delta, request=TEXT, tokens=TOKENS, text=TEXT, reasoning=st.just("") | TEXT)


def frame_of(event: object) -> Any:
    """What rank 0 sends of an event, as the gateway reads it."""
    return orjson.loads(event_frame(event)[4:])


@given(DELTAS)
def test_it_is_the_delta_that_the_codec_makes(delta: Delta) -> None:
    frame = frame_of(delta)
    made = plain_delta(frame)
    assert decode(frame, GATEWAY_RECEIVES) == delta
    assert made == (None if delta.reasoning or not delta.text else delta)
    if made is not None:
        assert (repr(made), hash(made)) == (repr(delta), hash(delta))


@pytest.mark.parametrize(
    "event",
    [Delta("a", (1,), "w", calls=(CallPart(0, "id", "name", "{}"),)), Failed("a", "code", "text")],
)
def test_what_else_a_frame_says_is_left_to_the_codec(event: object) -> None:
    assert plain_delta(frame_of(event)) is None


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
NAMES = st.sampled_from(["type", "request", "tokens", "text", "reasoning", "other"])


@given(st.dictionaries(NAMES, VALUES | st.lists(VALUES) | st.just("delta"), max_size=5))
def test_nothing_is_taken_that_the_codec_refuses(frame: dict[str, Any]) -> None:
    frame = {**frame, "type": "delta"}
    made = plain_delta(frame)
    try:
        wanted = decode(frame, GATEWAY_RECEIVES)
    except WireError:
        assert made is None
    else:
        assert made in (None, wanted)
