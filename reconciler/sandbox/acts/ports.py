"""Acts on the network settings of Thunderbolt ports."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.errors import Invalid
from reconciler.sandbox.world import changes
from reconciler.sandbox.world.state import BRIDGE, Kept, World, read_end, shown

from .act import Moment, Result, number

LATE_SECONDS = 180.0
RETAKE_SECONDS = 5.0
KEEP_SECONDS = 5.0
FOREIGN = "Thunderbolt-Anschluss"
"""A name of a port in another language; no capture shows one."""
FIRST = "first"


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
    name, receptacle, ports = _place(words[0], "all ports")
    if undo:
        free = changes.keep(world, name, receptacle, lambda _: None)
        after = changes.bridge(free, name, receptacle, False)
        return Result(after, f"macOS leaves {ports} of {name} out of bridge0")
    seconds = number(words[1:], RETAKE_SECONDS)
    after = changes.keep(world, name, receptacle, lambda _: Kept(seconds, BRIDGE))
    return Result(after, f"bridge0 of {name} takes {ports} back {seconds:g} s after each has left")


def keep_address(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, ports = _place(words[0], "its ports")
    if undo:
        after = changes.keep(world, name, receptacle, lambda _: None)
        return Result(after, f"{name} leaves {ports} the addresses that are set")
    seconds = number(words[1:], KEEP_SECONDS)
    after = changes.keep(
        world, name, receptacle, lambda port: Kept(seconds, addresses=(changes.self_assigned(port),))
    )
    return Result(
        after,
        f"{name} has given {ports} addresses of 169.254/16, again {seconds:g} s after each change",
    )


def second_address(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, ports = _place(words[0], "its ports")
    if undo:
        after = changes.drop_second_address(world, name, receptacle)
        return Result(after, f"{name} has taken the addresses of 169.254/16 of {ports} away")
    if words[1:] not in ([], [FIRST], (), (FIRST,)):
        raise Invalid(f"expected {FIRST} or nothing, got {' '.join(words[1:])!r}")
    after = changes.second_address(world, name, receptacle, bool(words[1:]))
    where = "before" if words[1:] else "after"
    return Result(after, f"{name} has given {ports} addresses of 169.254/16 {where} the others")


def share_internet(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    if undo:
        return Result(changes.unshare(world, end), f"{end[0]} shares no internet over port {end[1]}")
    after = changes.share(world, end, number(words[1:], KEEP_SECONDS))
    peer = after.peer_of(end)
    assert peer is not None
    return Result(
        after,
        f"{end[0]} shares its internet over port {end[1]}: {shown(peer)} has the lease {after.port(peer).lease}",
    )


def no_service(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, ports = _place(words[0], "its ports")
    after = changes.with_ports(world, name, receptacle, service=undo)
    return Result(after, f"{name} has {'a' if undo else 'no'} network service of {ports}")


def port_name(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle, ports = _place(words[0], "its ports")
    numbers = [port.receptacle for port in world.machine(name).ports if receptacle in (None, port.receptacle)]
    after = world
    for each in numbers:
        given = " ".join(words[1:]) or f"{FOREIGN} {each}"
        after = changes.with_ports(after, name, each, hardware_port="" if undo else given)
    called = ", ".join(after.port((name, each)).label for each in numbers)
    return Result(after, f"{name} calls {ports}: {called}")


def adapter(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    after = changes.with_machine(
        world, words[0], adapter=not undo, bridge=world.machine(words[0]).bridge or not undo
    )
    return Result(
        after, f"bridge0 of {words[0]} has {'no' if undo else 'a'} USB adapter with an Ethernet cable"
    )


def _place(word: str, ports: str = "") -> tuple[str, int | None, str]:
    """Return a machine, one of its receptacles, and words for that; ``ports`` are the words for all of them."""
    if "/" not in word:
        return word, None, ports
    name, receptacle = read_end(word)
    return name, receptacle, f"port {receptacle}"
