"""Frames that are read and written with less than the codec: they are what the codec would have made."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.routing.rank_frames import plain_delta, request_frame
from reconciler.runner.requests.event_frames import event_frame
from reconciler.wire.codec import WireError, decode
from reconciler.wire.form import Form
from reconciler.wire.frames import FRAME_BYTES_MAX, Decoder
from reconciler.wire.generation import GATEWAY_RECEIVES, RANK_RECEIVES, CallPart, Delta, Failed, Generate
from reconciler.wire.sampling import Ending, Sampling

TOKENS = st.lists(st.integers(0, 2**31)).map(tuple)
PLAIN_TEXT = st.text()
DELTAS = st.builds(
    Delta, request=PLAIN_TEXT, tokens=TOKENS, text=PLAIN_TEXT, reasoning=st.just("") | PLAIN_TEXT
)


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


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | PLAIN_TEXT
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


TEXT = st.text(st.characters(), max_size=20)  # also halves of surrogate pairs
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.lists(st.dictionaries(TEXT, JSON, max_size=3), max_size=3).map(tuple)
GENERATE = st.builds(
    Generate,
    request=TEXT,
    messages=MESSAGES,
    tools=MESSAGES,
    tokens_max=st.none() | st.integers(1, 100),
    stop=st.lists(TEXT, max_size=2).map(tuple),
    sampling=st.builds(Sampling, temperature=st.floats(0, 2), seed=st.integers(0, 2**63 - 1)),
    prompt=st.none() | TEXT,
    resume=st.lists(st.integers(0, 1000), max_size=4).map(tuple),
    ending=st.builds(Ending, tokens_min=st.integers(0, 9)),
    template=st.dictionaries(TEXT, JSON, max_size=2),
    form=st.builds(Form, schema=st.none() | TEXT),
)


@given(GENERATE)
def test_a_request_arrives_as_it_was(generate: Generate) -> None:
    (frame,) = Decoder().feed(request_frame(generate))
    assert decode(frame, RANK_RECEIVES) == generate


def test_one_that_is_too_long_is_refused() -> None:
    with pytest.raises(WireError):
        request_frame(Generate("a", (), prompt="a" * FRAME_BYTES_MAX))
