"""Frames over bytes, blocking sockets and streams."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.wire.codec import WireError
from reconciler.wire.frames import FRAME_BYTES_MAX, Decoder, encode, read, receive

_text = st.text(st.characters(exclude_categories=()), max_size=30)
_frames = st.lists(st.dictionaries(_text, st.integers() | _text, max_size=3), max_size=5)

MALFORMED = [
    (b"\x00\x00\x00\x01{", "not JSON"),
    (b"\x00\x00\x00\x00", "not JSON"),
    (b"\x00\x00\x00\x01\xff", "not JSON"),
    (b"\x00\x00\x00\x02[]", "expected an object, got list"),
    (b"\x01\x00\x00\x01", "frame of 16777217 bytes, the most is 16777216"),
]
CUT = [b"\x00", b"\x00\x00\x00", b"\x00\x00\x00\x02", b"\x00\x00\x00\x02{"]


@given(sent=_frames, cuts=st.lists(st.integers(0, 400)))
def test_frames_arrive_whole_however_their_bytes_are_cut(sent: list[dict[str, Any]], cuts: list[int]) -> None:
    stream = b"".join(encode(frame) for frame in sent)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    decoder = Decoder()

    received = [
        frame for start, end in itertools.pairwise(edges) for frame in decoder.feed(stream[start:end])
    ]

    assert received == sent


@given(sent=_frames)
def test_a_stream_yields_the_frames_and_then_nothing(sent: list[dict[str, Any]]) -> None:
    async def received() -> list[dict[str, Any] | None]:
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(encode(frame) for frame in sent))
        reader.feed_eof()
        return [await read(reader) for _ in range(len(sent) + 1)]

    assert asyncio.run(received()) == [*sent, None]


def test_a_blocking_socket_yields_the_frames_and_then_nothing() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(encode({"a": 1}) + encode({"b": "ä"}))
        assert [receive(theirs) for _ in range(3)] == [{"a": 1}, {"b": "ä"}, None]


@pytest.mark.parametrize(("content", "complaint"), MALFORMED)
async def test_what_is_no_frame_is_refused_everywhere(content: bytes, complaint: str) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    with pytest.raises(WireError, match=complaint):
        await read(reader)
    with pytest.raises(WireError, match=complaint):
        Decoder().feed(content)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(content)
        with pytest.raises(WireError, match=complaint):
            receive(theirs)


@pytest.mark.parametrize("content", CUT)
async def test_a_connection_that_ends_within_a_frame_is_an_error(content: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    reader.feed_eof()
    with pytest.raises(WireError, match="closed within a frame"):
        await read(reader)
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(content)
        with pytest.raises(WireError, match="closed within a frame"):
            receive(theirs)


def test_a_frame_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(WireError, match="the most is 16777216"):
        encode({"text": "x" * FRAME_BYTES_MAX})


def test_a_decoder_keeps_nothing_of_a_frame_that_it_has_yielded() -> None:
    decoder = Decoder()
    for _ in range(1000):
        assert decoder.feed(encode({"text": "x" * 1000})) == [{"text": "x" * 1000}]
