"""JACCL's side channel: an all-gather of bytes over the control channel of the ranks.

MLX has one of its own, a TCP port of rank 0, which waits without a limit and accepts every connection as a rank.
Here nobody connects to anything: the ranks have proven to each other who they are, every wait has a bound, and the
end of a rank ends the wait of all others at once.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.runner.process.watch import FrameHandler
from reconciler.wire.codec import WireError, decode, vocabulary
from reconciler.wire.group import FOLLOWER_RECEIVES, LEADER_RECEIVES, Share, Shares
from reconciler.wire.launch import ExitCode, RankConfig, RankEnd

from . import control_channel
from .sealed import Sealed

Gather = Callable[[bytes, int], bytes]
"""From this rank's bytes and their number to those of all ranks, in order."""

_TYPES = vocabulary(Share, Shares)


class SideChannel:
    """Rank 0 collects what the others share and sends all of it to each. Frames come from the watch's thread."""

    def __init__(self, config: RankConfig, connections: Mapping[int, Sealed]) -> None:
        self.failure: RankEnd | None = None
        """Why an all-gather failed; the error may be lost within MLX."""
        self._config = config
        self._connections = connections
        self._received: dict[int, queue.SimpleQueue[dict[str, Any]]] = {
            r: queue.SimpleQueue() for r in connections
        }
        self._round = 0
        self._deadline = 0.0

    def handler(self, rank: int, others: FrameHandler) -> FrameHandler:
        """Return the handler for a rank's frames: frames that belong to no all-gather go to ``others``."""
        mine = self._received[rank].put
        return lambda frame: (mine if frame.get("type") in _TYPES else others)(frame)

    def factory(self, rank: int, size: int) -> Gather:
        """Return the ``all_gather_factory`` for ``mx.distributed.init``, and start the time limit."""
        if (rank, size) != (self._config.id.rank, self._config.size):
            raise self._failed(ExitCode.WRONG_GROUP, f"MLX takes this rank for rank {rank} of {size}")
        self._deadline = time.monotonic() + self._config.verbs_seconds
        return self._gather

    def _gather(self, mine: bytes, length: int) -> bytes:
        try:
            contents = self._lead(mine) if self._config.id.rank == 0 else self._follow(mine)
        except RankEnd as end:
            self.failure = end
            raise
        if any(len(content) != length for content in contents) or len(contents) != self._config.size:
            raise self._failed(
                ExitCode.DIVERGED,
                f"the ranks shared {list(map(len, contents))} bytes, expected {length} of each",
            )
        self._round += 1
        return b"".join(contents)

    def _lead(self, mine: bytes) -> list[bytes]:
        shared = {rank: self._next(rank, LEADER_RECEIVES, Share) for rank in sorted(self._connections)}
        contents = [mine.hex(), *(share.content for share in shared.values())]
        control_channel.broadcast(self._connections, Shares(self._round, tuple(contents)))
        return self._bytes(contents)

    def _follow(self, mine: bytes) -> list[bytes]:
        control_channel.broadcast(self._connections, Share(self._round, mine.hex()))
        shares: Shares = self._next(0, FOLLOWER_RECEIVES, Shares)
        return self._bytes(shares.contents)

    def _next(self, rank: int, known: Mapping[str, type], meant: type) -> Any:
        """Return the next message of a rank; if that rank is gone, the watch ends this one."""
        seconds = self._config.verbs_seconds
        try:
            frame = self._received[rank].get(timeout=max(0.0, self._deadline - time.monotonic()))
        except queue.Empty:
            raise RankEnd(
                ExitCode.RENDEZVOUS, f"rank {rank} has not set up its side of RDMA within {seconds:g} s"
            ) from None
        try:
            message = decode(frame, known)
        except WireError as error:
            raise RankEnd(ExitCode.DIVERGED, f"rank {rank} shared invalid data: {error}") from None
        if not isinstance(message, meant) or message.round != self._round:  # type: ignore[attr-defined]
            raise RankEnd(
                ExitCode.DIVERGED, f"rank {rank} is not at all-gather {self._round} as this rank is"
            )
        return message

    def _bytes(self, contents: Any) -> list[bytes]:
        try:
            return [bytes.fromhex(content) for content in contents]
        except ValueError as error:
            raise RankEnd(ExitCode.DIVERGED, f"a rank shared what is no hexadecimal: {error}") from None

    def _failed(self, code: int, sentence: str) -> RankEnd:
        self.failure = RankEnd(code, sentence)
        return self.failure
