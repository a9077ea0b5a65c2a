"""The side channel over which ranks exchange what RDMA needs: an all-gather over their control channel."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.runner.group.sealed import Sealed
from reconciler.runner.group.side_channel import SideChannel
from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode
from reconciler.wire.group import Leave, Share, Shares
from reconciler.wire.launch import ExitCode, RankConfig, RankEnd
from tests.runner.ranks import configs
from tests.runner.sealing import sealed_pair

SIZE = 3


class Group:
    """The side channels of three ranks in one process, and threads in place of their watches."""

    def __init__(self, ranked: list[RankConfig]) -> None:
        self.others: list[dict[str, Any]] = []
        self.pairs = [sealed_pair() for _ in range(1, SIZE)]
        first = SideChannel(ranked[0], {rank: self.pairs[rank - 1][0] for rank in range(1, SIZE)})
        self.sides = [first, *(SideChannel(ranked[r], {0: self.pairs[r - 1][1]}) for r in range(1, SIZE))]
        self._threads: list[threading.Thread] = []
        for rank in range(1, SIZE):
            here, there = self.pairs[rank - 1]
            self._listen(here, first.handler(rank, self.others.append))
            self._listen(there, self.sides[rank].handler(0, self.others.append))

    def _listen(self, connection: Sealed, on_frame: Callable[[dict[str, Any]], None]) -> None:
        def run() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    on_frame(connection.next_frame())

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)

    def gather(self, shared: dict[int, bytes], length: int) -> dict[int, bytes | RankEnd]:
        """What each of these ranks gets when it shares its bytes."""
        got: dict[int, bytes | RankEnd] = {}

        def run(rank: int, content: bytes) -> None:
            try:
                got[rank] = self.sides[rank].factory(rank, SIZE)(content, length)
            except RankEnd as end:
                got[rank] = end

        threads = [threading.Thread(target=run, args=item) for item in shared.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return got

    def close(self) -> None:
        for pair in self.pairs:
            for connection in pair:
                connection.connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        for pair in self.pairs:
            for connection in pair:
                connection.close()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    yield from formed(tmp_path, verbs_seconds=25.0)


def formed(path: Path, verbs_seconds: float) -> Iterator[Group]:
    made = Group(configs(path, path, SIZE, backend="jaccl", verbs_seconds=verbs_seconds))
    yield made
    made.close()


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Group]:
    yield from formed(tmp_path, verbs_seconds=0.5)


def code(end: bytes | RankEnd) -> int:
    assert isinstance(end, RankEnd)
    return end.code


def test_every_rank_gets_what_all_have_shared_in_their_order_again_and_again(group: Group) -> None:
    for length in (1, 40, 1):
        shared = {rank: bytes([rank]) * length for rank in range(SIZE)}
        assert group.gather(shared, length) == dict.fromkeys(range(SIZE), b"".join(shared.values()))


def test_what_belongs_to_no_all_gather_goes_where_it_went(group: Group) -> None:
    group.pairs[0][0].send(encode(to_wire(Leave("over"))))
    assert len(group.gather(dict.fromkeys(range(SIZE), b"x"), 1)) == SIZE
    assert [order["type"] for order in group.others] == ["leave"]


def test_a_rank_that_never_comes_is_named_within_the_bound(impatient: Group) -> None:
    got = impatient.gather({0: b"a", 1: b"b"}, 1)
    assert {rank: code(end) for rank, end in got.items()} == dict.fromkeys((0, 1), ExitCode.RENDEZVOUS)
    assert "rank 2 has not set up its side of RDMA within 0.5 s" in str(impatient.sides[0].failure)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Share(7, "aa"), "not at all-gather 0"),
        (Share(0, "no hex"), "no hexadecimal"),
        (Share(0, "aabb"), r"shared \[1, 2, 1\] bytes"),
        (Shares(0, ("aa",)), "shared invalid data"),
    ],
)
def test_a_rank_that_shares_something_else_ends_the_attempt(group: Group, message: object, why: str) -> None:
    group.pairs[0][1].send(encode(to_wire(message)))
    group.pairs[1][1].send(encode(to_wire(Share(0, b"c".hex()))))
    got = group.gather({0: b"a"}, 1)
    assert code(got[0]) == ExitCode.DIVERGED
    with pytest.raises(RankEnd, match=why):
        raise got[0]  # type: ignore[misc]


def test_mlx_that_takes_a_rank_for_another_is_contradicted(group: Group) -> None:
    with pytest.raises(RankEnd, match="takes this rank for rank 0 of 1") as end:
        group.sides[1].factory(0, 1)
    assert end.value.code == ExitCode.WRONG_GROUP
