"""A frame is the same, whichever way it is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reconciler.runner.requests.event_frames import event_frame
from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode
from reconciler.wire.generation import CallPart, Delta, Finished, Likely, TokenLogprobs
from reconciler.wire.question import Vector

TEXT = st.text(st.characters(), max_size=20)  # surrogates as well


@given(
    request=TEXT,
    tokens=st.lists(st.integers(0, 1 << 20), max_size=3).map(tuple),
    text=TEXT,
    reasoning=TEXT,
    calls=st.sampled_from([(), (CallPart(0, "look", "call_1"),)]),
    logprobs=st.sampled_from([(), (TokenLogprobs(Likely(7, "a", -0.5)),)]),
    vectors=st.sampled_from([(), (Vector(0, "AACAPw=="),)]),
)
def test_a_delta_is_written_as_the_codec_writes_it(
    request: str,
    tokens: tuple[int, ...],
    text: str,
    reasoning: str,
    calls: tuple[CallPart, ...],
    logprobs: tuple[TokenLogprobs, ...],
    vectors: tuple[Vector, ...],
) -> None:
    delta = Delta(request, tokens, text, reasoning, calls, logprobs, vectors)
    assert event_frame(delta) == encode(to_wire(delta, brief=True))


def test_other_events_are_written_by_the_codec() -> None:
    finished = Finished("a", "stop", 3, 4)
    assert event_frame(finished) == encode(to_wire(finished, brief=True))
