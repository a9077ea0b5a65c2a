"""Every message survives the way over the wire, and nothing else is taken for one."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.wire import admin, codec, frames, generation, group, launch, node
from reconciler.wire.codec import WireError, agree, decode, from_wire, to_wire

VOCABULARIES: dict[str, dict[str, type]] = {
    f"{module.__name__}.{name}": value
    for module in (admin, generation, group, node)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, dict)
}
MESSAGES = sorted(
    {cls for words in VOCABULARIES.values() for cls in words.values()}, key=lambda cls: cls.__name__
)

_numbers = st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type may have."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return _json
    if origin is typing.Union:
        return st.none() | values(inner[0])
    if origin is tuple:
        return st.lists(values(inner[0]), max_size=3).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(st.text(), values(inner[1]), max_size=3)
    if dataclasses.is_dataclass(hint):
        return instances(typing.cast(type, hint))
    scalars: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(),
        int: st.integers(-(2**63), 2**63),
        float: _numbers,
        bool: st.booleans(),
    }
    return scalars[hint]


def instances(cls: type) -> st.SearchStrategy[Any]:
    """Any message of a class."""
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{field.name: values(hints[field.name]) for field in dataclasses.fields(cls)})


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_arrives_as_it_was_sent(cls: type) -> None:
    @given(message=instances(cls), brief=st.booleans())
    def arrives(message: Any, brief: bool) -> None:
        (frame,) = frames.Decoder().feed(
            frames.encode({**to_wire(message, brief), "call": 1, "of_a_newer_peer": [1]})
        )
        assert decode(frame, codec.vocabulary(cls)) == message

    arrives()


@pytest.mark.parametrize("cls", [launch.LaunchSpec, launch.RankConfig, node.ShimState, generation.Routes])
def test_what_is_kept_in_a_file_is_read_as_it_was_written(cls: type) -> None:
    @given(value=instances(cls))
    def is_read(value: Any) -> None:
        (frame,) = frames.Decoder().feed(frames.encode(to_wire(value)))
        assert from_wire(cls, frame) == value

    is_read()


@given(frame=st.dictionaries(st.sampled_from(["type", "id", "token", "spec", "models", "phase"]), _json))
def test_any_object_is_a_message_or_a_wire_error(frame: dict[str, Any]) -> None:
    for words in VOCABULARIES.values():
        try:
            message = decode(frame, words)
        except WireError:
            continue
        assert type(message) in words.values()


@pytest.mark.parametrize("words", VOCABULARIES.values(), ids=VOCABULARIES.keys())
def test_each_name_of_a_vocabulary_is_that_of_its_message(words: dict[str, type]) -> None:
    assert {name: cls.TYPE for name, cls in words.items()} == {name: name for name in words}  # type: ignore[attr-defined]


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_no_field_has_the_name_of_the_envelope(cls: type) -> None:
    assert not {field.name for field in dataclasses.fields(cls)} & {"type", "call", "reply"}


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ({}, "unknown message type None"),
        ({"type": ["observe"]}, "unknown message type"),
        ({"type": "stop_rank"}, "StopRank: field 'token' is missing"),
        ({"type": "observe", "models": "tiny"}, r"Observe\.models: expected a list, got str"),
        ({"type": "observe", "models": [1]}, r"Observe\.models: expected str, got 1"),
        ({"type": "shutdown", "token": True}, r"Shutdown\.token: expected int, got True"),
        ({"type": "shutdown", "token": 1.0}, r"Shutdown\.token: expected int, got 1\.0"),
        ({"type": "read_log", "id": 3, "bytes_max": 1}, "RankId: expected an object, got int"),
    ],
)
def test_a_frame_that_does_not_fit_is_answered_with_what_was_expected(
    frame: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(frame, node.AGENT_RECEIVES)


def test_a_whole_number_is_good_enough_where_any_number_is() -> None:
    assert from_wire(node.Terminate, {"grace_seconds": 3}).grace_seconds == 3.0


def test_two_sides_speak_the_newest_version_that_both_know() -> None:
    assert agree((3, 2), (2, 1)) == 2
    with pytest.raises(WireError, match="no common protocol version"):
        agree((3, 2), (1,))


@given(id=instances(launch.RankId).filter(lambda id: min(id.replica, id.epoch, id.rank) >= 0))
def test_the_id_of_a_rank_is_read_as_it_is_written(id: launch.RankId) -> None:
    assert launch.RankId.parse(str(id)) == id


@pytest.mark.parametrize("text", ["", "llama", "llama.0.1", "llama.x.1.0"])
def test_what_is_no_id_of_a_rank_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        launch.RankId.parse(text)


def test_a_brief_message_is_the_same_without_what_nobody_gave() -> None:
    delta = generation.Delta("r.0", (7,), "seven")
    brief = to_wire(delta, brief=True)
    assert brief == {"type": "delta", "request": "r.0", "tokens": [7], "text": "seven"}
    assert decode(brief, generation.GATEWAY_RECEIVES) == delta
    assert to_wire(generation.Delta("r.0", ()), brief=True)["tokens"] == []
