"""What rank 0 reads of a request is what the gateway meant, whatever a client has written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.routing.request_frame import request_frame
from reconciler.wire.codec import WireError, decode
from reconciler.wire.form import Form
from reconciler.wire.frames import FRAME_BYTES_MAX, Decoder
from reconciler.wire.generation import RANK_RECEIVES, Generate
from reconciler.wire.sampling import Ending, Sampling

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
