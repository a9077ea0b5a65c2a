"""How MLX forms a group: the limits of calls that hold the interpreter's lock, and what is checked of the result."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx
import pytest

from reconciler.runner.group import init, jaccl, ring
from reconciler.runner.group.init import interrupted, timed_out
from reconciler.wire.launch import ExitCode, RankConfig, RankEnd
from tests.runner.ranks import configs

NUMBERS = (signal.SIGIO, signal.SIGALRM)


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    handlers, timer = (
        {number: signal.getsignal(number) for number in NUMBERS},
        signal.setitimer(signal.ITIMER_REAL, 0),
    )
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.setitimer(signal.ITIMER_REAL, *timer)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_comes_after_a_call_interrupts_nothing(pipe: tuple[int, int]) -> None:
    flags = fcntl.fcntl(pipe[0], fcntl.F_GETFL)
    with interrupted((pipe[0],), 600.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        assert fcntl.fcntl(pipe[0], fcntl.F_GETFL) == flags | os.O_ASYNC
        assert all(callable(signal.getsignal(number)) for number in NUMBERS)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert fcntl.fcntl(pipe[0], fcntl.F_GETFL) == flags
    assert [signal.getsignal(number) for number in NUMBERS] == [signal.SIG_IGN, signal.SIG_IGN]


def test_so_it_is_after_a_call_that_has_failed(pipe: tuple[int, int]) -> None:
    with pytest.raises(RuntimeError, match="MLX"), interrupted((pipe[0],), 600.0):
        raise RuntimeError("MLX")
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert [signal.getsignal(number) for number in NUMBERS] == [signal.SIG_IGN, signal.SIG_IGN]


def test_a_call_takes_no_longer_than_its_limit(pipe: tuple[int, int]) -> None:
    with interrupted((), 0.01):
        time.sleep(0.05)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0, "it has rung"


class Formed:
    """A group as MLX has formed it."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size


@pytest.fixture
def config(tmp_path: Path) -> RankConfig:
    """Of rank 1 of two."""
    return configs(tmp_path, tmp_path, 2)[1]


@pytest.mark.parametrize(("rank", "size"), [(1, 2), (0, 2), (1, 1), (1, 3), (0, 1)])
def test_a_rank_serves_only_in_its_place_of_a_group_of_its_size(
    config: RankConfig, rank: int, size: int
) -> None:
    group = Formed(rank, size)
    if (rank, size) == (1, 2):
        assert init.checked(group, config) is group
        return
    with pytest.raises(RankEnd, match=f"this rank {rank} of a group of {size}, expected 1 of 2") as ended:
        init.checked(group, config)
    assert ended.value.code == ExitCode.WRONG_GROUP


ROLLS = [([0, 1], True), ([1, 0], False), ([1, 1], False), ([0], False), ([0, 1, 2], False)]


@pytest.mark.parametrize(("answers", "complete"), ROLLS)
def test_a_ring_is_used_only_when_every_rank_has_answered_in_its_place(
    config: RankConfig, monkeypatch: pytest.MonkeyPatch, answers: list[int], complete: bool
) -> None:
    """Without that first exchange, a rank in another one's place would be noticed by the wrong words of an answer."""
    group = Formed(1, 2)
    monkeypatch.setattr(mx.distributed, "all_gather", lambda *_, **__: mx.array(answers))
    monkeypatch.setattr(mx.distributed, "all_sum", mx.distributed.all_sum)
    monkeypatch.setattr(ring, "_formed", lambda *_: group)
    monkeypatch.setattr(ring, "_replace", lambda *_: None)
    with socket.socket() as left, socket.socket() as right:
        if complete:
            assert ring.init_ring(config, left, right, 0) is group
            return
        with pytest.raises(RankEnd, match=re.escape(f"answered as {answers}, expected [0, 1]")) as ended:
            ring.init_ring(config, left, right, 0)
    assert ended.value.code == ExitCode.WRONG_GROUP


def test_a_ring_that_mlx_has_formed_otherwise_is_not_used(
    config: RankConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring, "_formed", lambda *_: Formed(0, 1))
    with (
        socket.socket() as left,
        socket.socket() as right,
        pytest.raises(RankEnd, match="rank 0 of a group of 1"),
    ):
        ring.init_ring(config, left, right, 0)


def test_variables_and_their_file_are_there_for_a_call_and_gone_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTHERWISE", "set")
    with init.environment("t-", [["here"]], ("PATH_OF_FILE",), {"RANK": "1", "OTHERWISE": None}):
        path = Path(os.environ["PATH_OF_FILE"])
        assert json.loads(path.read_text()) == [["here"]]
        assert os.environ["RANK"] == "1"
        assert "OTHERWISE" not in os.environ
    assert not path.exists()
    assert not {"PATH_OF_FILE", "RANK", "OTHERWISE"} & os.environ.keys()


def test_an_error_of_mlx_is_told_by_what_it_means() -> None:
    assert timed_out("accept failed (error: 4)")
    assert timed_out("errno=4 in connect")
    assert not timed_out("errno=48 in connect")
    late, other = ring._failure("accept failed (error: 4)"), ring._failure("something new")
    assert (late.code, other.code) == (ExitCode.RENDEZVOUS, ExitCode.RENDEZVOUS)
    assert "within 20 s" in str(late)
    assert "something new" in str(other)
    taken = ring._failure("[ring] Couldn't bind socket (error: 48)")
    assert taken.code == ExitCode.PORT_IN_USE


@pytest.mark.parametrize("tries", [1, 2, 3, 4])
def test_a_port_that_somebody_takes_meanwhile_is_not_the_last_one_that_is_tried(
    config: RankConfig, monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    group, asked = Formed(1, 2), []

    def form(**_: object) -> Formed:
        asked.append(os.environ["MLX_RANK"])
        if len(asked) < tries:
            raise RuntimeError("[ring] Couldn't bind socket (error: 48)")
        return group

    monkeypatch.setattr(mx.distributed, "init", form)
    monkeypatch.setattr(ring, "_knocking", lambda _: contextlib.nullcontext())
    with socket.create_server(("127.0.0.1", 0)) as connects, Path(os.devnull).open() as shim:
        if tries <= ring.ATTEMPTS_MAX:
            assert ring._formed(config, connects, shim.fileno()) is group
        else:
            with pytest.raises(RankEnd) as ended:
                ring._formed(config, connects, shim.fileno())
            assert ended.value.code == ExitCode.PORT_IN_USE
    assert asked == ["1"] * min(tries, ring.ATTEMPTS_MAX)


def test_another_error_of_mlx_is_not_tried_again(config: RankConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def form(**options: object) -> None:
        asked.append(options)
        raise RuntimeError("something new")

    monkeypatch.setattr(mx.distributed, "init", form)
    monkeypatch.setattr(ring, "_knocking", lambda _: contextlib.nullcontext())
    with (
        socket.create_server(("127.0.0.1", 0)) as connects,
        Path(os.devnull).open() as shim,
        pytest.raises(RankEnd, match="something new"),
    ):
        ring._formed(config, connects, shim.fileno())
    assert asked == [{"strict": True, "backend": "ring"}]


# --- over RDMA -------------------------------------------------------------------------------------


@dataclass
class Side:
    """In place of the side channel: its failure explains more than MLX's error."""

    failure: RankEnd | None = None
    factory: object = "made by the side channel"


@pytest.fixture
def meshed(tmp_path: Path) -> RankConfig:
    """Of rank 1 of three, joined by two cables to rank 0, and by one to rank 2."""
    devices = (("", "rdma_en2,rdma_en3", ""), ("rdma_en4,rdma_en2", "", "rdma_en5"), ("", "rdma_en3", ""))
    return replace(configs(tmp_path, tmp_path, 3, backend="jaccl")[1], devices=devices, verbs_seconds=45.0)


def formed_over_rdma(
    config: RankConfig,
    monkeypatch: pytest.MonkeyPatch,
    group: Formed | Exception,
    side: Side,
    answers: Sequence[int] = (0, 1, 2),
) -> tuple[object, dict[str, str], object]:
    """The group, and the environment and arguments with which MLX was asked for it."""
    seen: dict[str, str] = {}
    asked: list[object] = []

    def form(**options: object) -> Formed:
        seen.update({name: value for name, value in os.environ.items() if "JACCL" in name or "MLX" in name})
        seen["devices"] = Path(os.environ["JACCL_IBV_DEVICES"]).read_text()
        asked.append(options)
        if isinstance(group, Exception):
            raise group
        return group

    monkeypatch.setattr(mx.distributed, "init", form)
    monkeypatch.setattr(mx.distributed, "all_gather", lambda *_, **__: mx.array(list(answers)))
    monkeypatch.setattr(jaccl, "interrupted", interruption(asked))
    monkeypatch.setattr(jaccl, "check_buffers", lambda formed: asked.append(formed))
    made = jaccl.init_jaccl(config, side, 7)  # type: ignore[arg-type]
    return made, seen, asked


def interruption(asked: list[object]) -> Callable[..., contextlib.AbstractContextManager[None]]:
    def interrupted_by(descriptors: Sequence[int], seconds: float) -> contextlib.AbstractContextManager[None]:
        asked.append((descriptors, seconds))
        return contextlib.nullcontext()

    return interrupted_by


@pytest.mark.parametrize("ring", [False, True])
def test_mlx_is_told_of_every_device_and_of_nothing_from_before(
    meshed: RankConfig, monkeypatch: pytest.MonkeyPatch, ring: bool
) -> None:
    for name in jaccl.VARIABLES["ring"]:
        monkeypatch.setenv(name, "of before")
    config, group, side = replace(meshed, prefer_ring=ring), Formed(1, 3), Side()
    made, seen, asked = formed_over_rdma(config, monkeypatch, group, side)
    assert made is group
    assert json.loads(seen["devices"]) == [
        [None, ["rdma_en2", "rdma_en3"], None],
        [["rdma_en4", "rdma_en2"], None, ["rdma_en5"]],
        [None, ["rdma_en3"], None],
    ]
    assert seen["JACCL_IBV_DEVICES"] == seen["MLX_IBV_DEVICES"]
    assert seen["JACCL_COORDINATOR"] == seen["MLX_JACCL_COORDINATOR"] == config.control
    assert seen["JACCL_RANK"] == seen["MLX_RANK"] == "1"
    assert [seen.get(name) for name in jaccl.VARIABLES["ring"]] == ["1" if ring else None] * 2
    assert asked == [
        ([7], 45.0),
        {"strict": True, "backend": "jaccl", "all_gather_factory": "made by the side channel"},
        group,
    ], "the sums of the group are checked, when it is formed"
    assert not {name for names in jaccl.VARIABLES.values() for name in names} & os.environ.keys()


LATE = "changing queue pair to RTR failed with errno 4"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RuntimeError("[jaccl] changing queue pair to RTR failed with errno 22"), ExitCode.GID, "errno 22"),
        (ValueError("something new"), ExitCode.VERBS, "something new"),
        (RuntimeError(LATE), ExitCode.VERBS, f"the RDMA driver did not answer within 45 s ({LATE})"),
    ],
)
def test_an_error_over_rdma_is_told_with_the_devices_of_this_rank(
    meshed: RankConfig, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, words: str
) -> None:
    with pytest.raises(RankEnd) as ended:
        formed_over_rdma(meshed, monkeypatch, error, Side())
    assert ended.value.code == code
    assert ended.value.sentence.startswith("MLX could not set up RDMA on rdma_en2, rdma_en4, rdma_en5: ")
    assert ended.value.sentence.endswith(words)


def test_the_failure_of_the_side_channel_explains_the_error_that_it_causes(
    meshed: RankConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = RankEnd(ExitCode.PEER_LOST, "rank 0 is gone")
    with pytest.raises(RankEnd) as ended:
        formed_over_rdma(meshed, monkeypatch, RuntimeError("something new"), Side(lost))
    assert ended.value is lost


@pytest.mark.parametrize(
    ("group", "answers"), [(Formed(0, 3), (0, 1, 2)), (Formed(1, 2), (0, 1)), (Formed(1, 3), (0, 2, 1))]
)
def test_a_wrong_group_over_rdma_is_not_used(
    meshed: RankConfig, monkeypatch: pytest.MonkeyPatch, group: Formed, answers: tuple[int, ...]
) -> None:
    with pytest.raises(RankEnd) as ended:
        formed_over_rdma(meshed, monkeypatch, group, Side(), answers)
    assert ended.value.code == ExitCode.WRONG_GROUP


@pytest.mark.parametrize("available", [True, False])
def test_an_mlx_without_jaccl_is_told_before_anything_is_set_up(
    monkeypatch: pytest.MonkeyPatch, available: bool
) -> None:
    asked: list[str] = []

    def is_available(backend: str) -> bool:
        asked.append(backend)
        return available

    monkeypatch.setattr(mx.distributed, "is_available", is_available)
    if available:
        jaccl.require_jaccl()
    else:
        with pytest.raises(RankEnd, match="has no JACCL") as ended:
            jaccl.require_jaccl()
        assert ended.value.code == ExitCode.NO_BACKEND
    assert asked == ["jaccl"]
