"""Acts on Thunderbolt cables."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.sandbox.tools.system import report_name
from reconciler.sandbox.world import changes
from reconciler.sandbox.world.state import World, read_end, shown

from .act import Moment, Result, number


def unplug(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    cable = world.cable_of(end)
    if undo:
        return plug(world, words, moment, False)
    after = changes.unplug(world, end)
    assert cable is not None
    return Result(after, f"the cable between {shown(cable.a)} and {shown(cable.b)} is unplugged")


def plug(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    if undo:
        return unplug(world, words, moment, False)
    ends = [read_end(word) for word in words]
    after = changes.plug(world, *ends)
    peer = after.peer_of(ends[0])
    assert peer is not None
    return Result(after, f"{shown(ends[0])} and {shown(peer)} are connected")


def swap(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    a, b = (read_end(word) for word in words)
    after = changes.swap(world, a, b)
    leads = [f"{shown(end)} leads to {shown(peer)}" for end in (a, b) if (peer := after.peer_of(end))]
    return Result(after, " now, and ".join(leads) or "both are unplugged")


def slow(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    after = changes.slow(world, end, not undo)
    cable = after.cable_of(end)
    assert cable is not None
    return Result(after, f"the cable at {shown(end)} has {cable.gbps} Gb/s")


def slow_rdma(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    if undo:
        return slow(world, words, moment, undo)
    end = read_end(words[0])
    after = changes.slow_rdma(world, end)
    return Result(after, f"the cable at {shown(end)} has 40 Gb/s, and RDMA works over it")


def hub(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    after = changes.hub(world, end, "" if undo else changes.HUB)
    return Result(
        after,
        f"the cable at {shown(end)} goes through no hub"
        if undo
        else f"the cable at {shown(end)} goes through a {changes.HUB}, which {end[0]} alone reports",
    )


def dock(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    after = changes.dock(world, end, "" if undo else changes.DOCK)
    return Result(
        after, f"the cable at {shown(end)} goes {'through no dock' if undo else f'through a {changes.DOCK}'}"
    )


def pull(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    cable = world.cable_of(end)
    if undo:
        assert cable is not None
        panicked = cable.other(end)[0]
        after = changes.with_machine(changes.plug(world, end), panicked, panics=())
        return Result(after, f"{shown(end)} is plugged in, and {panicked} has no panic reports any more")
    seconds = number(words[1:], changes.PANIC_SECONDS)
    report = report_name("panic", moment.now)
    after = changes.pull(world, end, moment.now, moment.boot_id, report, seconds)
    assert cable is not None
    return Result(
        after,
        f"{shown(end)} is unplugged, and the kernel of {cable.other(end)[0]} panicked; it is back in {seconds:g} s",
    )
