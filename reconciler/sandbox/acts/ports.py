"""Acts on the network settings of Thunderbolt ports."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.sandbox.world import changes
from reconciler.sandbox.world.state import World, read_end

from .act import Moment, Result, number

LATE_SECONDS = 180.0
RETAKE_SECONDS = 5.0


def bridge(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, ports = _place(words[0], "all ports")
    after = changes.bridge(world, name, receptacle, not undo)
    return Result(after, f"{ports} of {name} {'left' if undo else 'joined'} bridge0")


def lose_ipv4(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, ports = _place(words[0], "its ports")
    if undo:
        return Result(
            changes.find_ipv4(world, name, receptacle), f"{name} has given {ports} addresses of 169.254/16"
        )
    return Result(changes.lose_ipv4(world, name, receptacle), f"{name} has no IPv4 address on {ports}")


def readdress(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, ports = _place(words[0], "its ports")
    after = changes.readdress(world, name, receptacle, undo)
    return Result(
        after, f"{name} has given {ports} {'the first' if undo else 'other'} addresses of 169.254/16"
    )


def gid_index(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, ports = _place(words[0], "all ports")
    index = 1 if undo else int(number(words[1:], 2))
    after = changes.move_gid(world, name, receptacle, index)
    return Result(after, f"the mapped GID of {ports} of {name} has index {index}")


def late_gid(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    seconds = 0.0 if undo else number(words[1:], LATE_SECONDS)
    after = changes.with_machine(world, words[0], gids_from=moment.now + seconds if seconds else 0.0)
    return Result(
        after,
        f"the devices of {words[0]} publish their mapped GIDs {f'in {seconds:g} s' if seconds else 'now'}",
    )


def retake(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, _ = _place(words[0])
    seconds = 0.0 if undo else number(words[1:], RETAKE_SECONDS)
    joined = changes.bridge(world, name, receptacle, not undo)
    after = changes.fault(joined, name, bridge_takes_seconds=seconds)
    if undo:
        return Result(after, f"macOS leaves the ports of {name} out of bridge0")
    return Result(after, f"bridge0 of {name} takes each port back {seconds:g} s after it has left")


def _place(word: str, ports: str = "") -> tuple[str, int | None, str]:
    """Return a machine, one of its receptacles, and words for that; ``ports`` are the words for all of them."""
    if "/" not in word:
        return word, None, ports
    name, receptacle = read_end(word)
    return name, receptacle, f"port {receptacle}"
