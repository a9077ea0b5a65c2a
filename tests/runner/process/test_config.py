"""The configuration of a rank: one that cannot work is refused with what is wrong, before anything is loaded."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.runner.process.config import read_config
from reconciler.wire.codec import to_wire
from reconciler.wire.launch import ExitCode, RankConfig, RankEnd, RankId, RopeKind, RopeScaling
from reconciler.wire.sockets import split_address

PAIR = RankConfig(
    id=RankId("llama", 0, 1, 0),
    size=2,
    model_path="/models/tiny",
    strategy="tensor",
    backend="ring",
    addresses=("10.0.0.1:5000", "10.0.0.2:65535"),
    control="10.0.0.1:4000",
    also_control=("10.0.1.1:1",),
    secret="s3cret",
    socket="/run/r.sock",
    context=128,
    batch_max=1,
    rendezvous_seconds=0.1,
    verbs_seconds=0.1,
    keep_alive_seconds=0.0,
)
NOTHING = {"addresses": (), "control": "", "also_control": (), "secret": "", "strategy": "", "backend": ""}
"""What a rank alone need not be told."""
BOTH_WAYS = (("", "rdma_en2"), ("rdma_en3", ""))
RING = (("", "a", "", "b"), ("c", "", "d", ""), ("", "e", "", "f"), ("g", "", "h", ""))
ADDRESSES = tuple(f"10.0.0.{number}:5000" for number in range(1, 5))


def read(path: Path, config: RankConfig) -> RankConfig:
    path.write_text(json.dumps(to_wire(config)))
    return read_config(str(path))


def changed(**changes: Any) -> RankConfig:
    return dataclasses.replace(PAIR, **changes)


@pytest.mark.parametrize(
    "config",
    [
        PAIR,
        changed(id=RankId("llama", 0, 1, 1), socket=""),
        changed(size=1, **NOTHING),
        changed(size=1, **{**NOTHING, "backend": "jaccl"}),
        changed(strategy="pipeline", context=2),
        changed(context=1 << 20),
        changed(rope_scaling=RopeScaling(RopeKind.YARN, 4.0, 32768)),
        changed(backend="jaccl", devices=BOTH_WAYS),
        changed(backend="jaccl", devices=RING, size=4, addresses=ADDRESSES, prefer_ring=True),
    ],
    ids=[
        "two",
        "rank 1",
        "alone",
        "alone with jaccl",
        "pipeline",
        "longest",
        "scaled",
        "mesh",
        "ring of four",
    ],
)
def test_what_can_work_is_taken_as_it_is(tmp_path: Path, config: RankConfig) -> None:
    assert read(tmp_path / "config.json", config) == config


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"size": 0}, "size is 0, but must be at least 1"),
        ({"id": RankId("llama", 0, 1, 2)}, "rank 2 is not one of a group of 2"),
        ({"id": RankId("llama", 0, 1, -1)}, "rank -1 is not one of a group of 2"),
        ({"addresses": ("10.0.0.1:5000",)}, "1 addresses for 2 ranks"),
        ({"addresses": ("10.0.0.1:5000", "10.0.0.2")}, "addresses are not all ip:port"),
        ({"addresses": ("10.0.0.1:5000", "10.0.0.2:0")}, "addresses are not all ip:port"),
        ({"addresses": ("10.0.0.1:5000", "10.0.0.2:65536")}, "addresses are not all ip:port"),
        ({"addresses": ("10.0.0.1:5000", ":5000")}, "addresses are not all ip:port"),
        (
            {"rope_scaling": RopeScaling("longrope", 4.0, 32768)},
            "rope_scaling is RopeScaling(kind='longrope', factor=4.0, original=32768), expected a factor above 1 of yarn, linear, llama3",
        ),
        (
            {"rope_scaling": RopeScaling(RopeKind.YARN, 1.0, 32768)},
            "rope_scaling is RopeScaling(kind='yarn', factor=1.0, original=32768), expected a factor above 1 of yarn, linear, llama3",
        ),
        ({"control": "10.0.0.1"}, "control is '10.0.0.1', expected ip:port"),
        ({"also_control": ("x",)}, "also_control is not all ip:port"),
        ({"secret": ""}, "secret is empty"),
        ({"backend": "mpi"}, "backend 'mpi' is not supported, expected 'ring' or 'jaccl'"),
        ({"backend": "jaccl"}, "devices do not join all neighbours"),
        ({"backend": "jaccl", "devices": BOTH_WAYS[:1]}, "devices do not join all neighbours"),
        ({"backend": "jaccl", "devices": (("", "a"), ("b",))}, "devices do not join all neighbours"),
        ({"backend": "jaccl", "devices": (("x", "a"), ("b", ""))}, "devices do not join all neighbours"),
        ({"backend": "jaccl", "devices": (("", "a"), ("", ""))}, "devices do not join all neighbours"),
        (
            {"backend": "jaccl", "devices": RING, "size": 4, "addresses": ADDRESSES},
            "devices do not join all neighbours",
        ),
        ({"strategy": "data"}, "strategy is 'data', expected 'tensor' or 'pipeline'"),
        ({"context": 1}, "context is 1, expected 2 to 1048576"),
        ({"context": (1 << 20) + 1}, "context is 1048577, expected 2 to 1048576"),
        ({"batch_max": 0}, "batch_max is 0, but must be at least 1"),
        ({"rendezvous_seconds": 0.0}, "rendezvous_seconds is not above 0"),
        ({"verbs_seconds": 0.0}, "verbs_seconds is not above 0"),
        ({"keep_alive_seconds": -0.1}, "keep_alive_seconds is below 0"),
        ({"socket": ""}, "socket is empty"),
    ],
)
def test_what_cannot_work_is_named(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(RankEnd) as end:
        read(path, changed(**changes))
    assert (end.value.code, end.value.sentence) == (ExitCode.CONFIG, f"{path}: {sentence}")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot read .*No such file"),
        ("{", "cannot read .*: Expecting property name"),
        ("{}", "cannot read "),
    ],
)
def test_a_file_that_holds_no_configuration_is_named(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RankEnd, match=sentence) as end:
        read_config(str(path))
    assert end.value.code == ExitCode.CONFIG
    with pytest.raises(RankEnd, match="RECONCILER_RANK_CONFIG is not set"):
        read_config("")


def test_an_address_is_an_ip_and_a_port() -> None:
    assert split_address("10.0.0.1:4000") == ("10.0.0.1", 4000)
    assert split_address("fe80::1:4000") == ("fe80::1", 4000)
