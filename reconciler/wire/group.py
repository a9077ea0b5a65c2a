"""Rank 0 and the other ranks of its group: the control channel.

A TCP connection from every other rank to rank 0 on the group's own link, opened before MLX's and kept as
long as the group lives. It can wait without spinning, notice a dead peer at once, and announce a step
before it begins, which collectives cannot. The ranks then do the same operations in the same order.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

from .codec import message, vocabulary
from .sampling import BY_MODEL, Ending, Sampling


@message("join")
class Join:
    """The first frame of a rank: its id, values that must be equal on all ranks, and the port for its neighbour."""

    rank: int
    epoch: int
    mlx: str
    mlx_lm: str
    weights: str
    """Digest of the model's config and the names and sizes of its weight files."""
    ring: int = 0
    """The port of its address at which it accepts its neighbour in MLX's ring; 0 without a ring."""


@message("joined")
class Joined:
    """Rank 0's answer once all ranks are there."""

    problem: str = ""
    """Why the group cannot form; empty if it can."""
    ring: Tuple[int, ...] = ()
    """``Join.ring`` of all ranks, in order."""


@dataclasses.dataclass(frozen=True, order=True)
class Prefix:
    """The name of an entry of the prefix cache: the first ``length`` tokens of sequence ``uid``. Every rank keeps the
    part of its own layers."""

    uid: int
    length: int


@dataclasses.dataclass(frozen=True)
class Seen:
    """The tokens that penalties count, whether or not they are read again."""

    prompt: Tuple[int, ...]
    """Tokens of the prompt, each once, where a repetition penalty needs them."""
    answer: Tuple[int, ...]
    """The answer so far."""


@dataclasses.dataclass(frozen=True)
class Insertion:
    """One sequence to add to the batch. Token ids only: text stays on rank 0."""

    prompt: Tuple[int, ...]
    """Tokens after the reused ones, at least one."""
    tokens_max: int
    sampling: Sampling
    position: int = 0
    """Number of tokens of the answer that the prompt already ends with: the sampler's position."""
    reuse: Optional[Prefix] = None
    """The entry with the tokens before ``prompt``."""
    reused: int = 0
    """Number of the entry's first tokens that are reused."""
    ending: Ending = BY_MODEL
    seen: Optional[Seen] = None
    """Set where ``sampling`` penalizes."""
    scored: bool = False
    """True if every rank computes the logits after each token of the prompt, not only after the last one."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """Prompts that a step reads together."""

    uids: Tuple[int, ...]
    tokens: int = 0
    """Number of tokens of the only prompt, which leaves at least one; 0: the rest of each, which is decoded
    afterwards."""
    lane: int = 0
    """The lane in which they are decoded. All sequences of a lane take as much memory as the longest of them."""


@dataclasses.dataclass(frozen=True)
class Gauging:
    """A measurement by all ranks: ``generation.Measure`` without the fields that only rank 0 needs."""

    rounds: int
    small_bytes: int
    large_bytes: int


@message("step")
class Step:
    """Forget, keep, remove and insert; then decode one token of each sequence that is decoded, and read prompts.
    ``uid``s count insertions from 0."""

    number: int
    remove: Tuple[int, ...] = ()
    insert: Tuple[Insertion, ...] = ()
    gauging: Optional[Gauging] = None
    """Measurement that comes first."""
    forget: Tuple[Prefix, ...] = ()
    """Entries of the prefix cache to drop."""
    keep: Tuple[Prefix, ...] = ()
    """Entries to add, of sequences that are in the batch or have ended in the last step."""
    read: Tuple[Reading, ...] = ()


@message("share")
class Share:
    """One rank's part of an all-gather of bytes, while MLX sets up RDMA."""

    round: int
    """Counts the all-gathers of a group from 0."""
    content: str
    """The bytes in hexadecimal."""


@message("shares")
class Shares:
    """All parts of an all-gather, in the order of ranks."""

    round: int
    contents: Tuple[str, ...]


@message("keepAlive")
class KeepAlive:
    """Run a small collective before step ``number``, because unused queue pairs decay."""

    number: int


@message("leave")
class Leave:
    """The group ends in order: every rank exits with status 0."""

    reason: str


FOLLOWER_RECEIVES = vocabulary(Joined, Step, KeepAlive, Shares, Leave)
LEADER_RECEIVES = vocabulary(Join, Share)
