"""What happens to a group of two Macs that serves over RDMA, one case for each way to see a class of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reconciler.state import NodeName, Reboot, StepFailure
from reconciler.wire.launch import Exit, ExitCode, Phase, RankId
from reconciler.wire.repair import RepairReport, RepairState
from tests.planning.macs import A, B, learn, learn_of_port
from tests.worlds import World

Happen = Callable[[World], None]


def _group(world: World) -> tuple[RankId, RankId]:
    first, second = world.group().rank_ids
    return first, second


def _ends(
    code: int | None = None, signal: int | None = None, words: str = "", other: int = ExitCode.PEER_LOST
) -> Happen:
    """Rank 1 ends like this; rank 0, whose peer is gone, has said so a second earlier by its own clock."""

    def happen(world: World) -> None:
        first, second = _group(world)
        world.end_rank(first, code=other)
        world.now += 1
        world.end_rank(second, code, signal)
        ended = Exit(code, signal, world.now, words, metal=words.startswith("[METAL]"))
        place, report = world.ranks[second]
        world.ranks[second] = (place, replace(report, exit=ended))

    return happen


def _never_starts(world: World) -> None:
    """There was never a process of rank 1: its shim could not be started."""
    _ends(ExitCode.UNEXPECTED, words="never started: [Errno 28] No space left on device")(world)
    _, second = _group(world)
    place, report = world.ranks[second]
    world.ranks[second] = (place, replace(report, pid=None, shim_pid=None))


def _dies(world: World) -> None:
    _ends(signal=11)(world)


def _while_forming(happen: Happen) -> Happen:
    """It happens before the group has ever given a completion."""

    def before_proof(world: World) -> None:
        record = world.group()
        world.groups[world.replica()] = replace(record, proven_at=None)
        happen(world)

    return before_proof


def _both(*happenings: Happen) -> Happen:
    def happen(world: World) -> None:
        for each in happenings:
            each(world)

    return happen


def _swaps(world: World) -> None:
    learn_of_port(world, A, peer=(NodeName("node-c"), 3))
    learn_of_port(world, B, connected=False, peer=None)


def _hangs(world: World) -> None:
    for rank in _group(world):
        world.report(rank, demand=1, silent_seconds=90.0, steps=40 + rank.rank)


def _takes_no_requests(world: World) -> None:
    world.report(_group(world)[0], deaf_seconds=90.0)


def _look_for_each_other(world: World) -> None:
    for rank in _group(world):
        world.report(rank, phase=Phase.RENDEZVOUS, silent_seconds=25.0)


def _mute(world: World) -> None:
    record = world.group()
    world.groups[world.replica()] = replace(record, proven_at=None)
    key = f"prove/{record.replica}/{record.epoch}"
    world.failures[key] = StepFailure(3, world.now, "no answer within 120 s")


def _reboots(world: World) -> None:
    for rank in list(world.ranks):
        if world.ranks[rank][0] == B and world.ranks[rank][1].phase != Phase.EXITED:
            world.end_rank(rank, signal=9)
    world.boots[B] = f"boot-{world.now}"


def _idles(world: World) -> None:
    world.report(_group(world)[0], idle_seconds=1500.0)


def _leaks(world: World) -> None:
    """On the last machine: of three it is one without ranks."""
    learn(world, max(world.facts), wired_excess_bytes=90 * 2**30)


def _addresses_twice(world: World) -> None:
    """The port of the second machine got its address twice since the machine booted."""
    (port, *_), boot = world.facts[B].ports, world.boots.get(B, "boot")
    world.repairs[B] = RepairReport("r", boot, RepairState.CONFIRMED, readdressed=(port.interface,))


def _has_thunderbolt4(world: World) -> None:
    ports = tuple(replace(port, ceiling_gbps=40, gbps=None) for port in world.facts[A].ports)
    learn(world, A, rdma_enabled=False, ports=ports)


def _restarted(world: World) -> None:
    """The second machine was restarted from here, before the boot in which the group was formed."""
    world.reboots[B] = Reboot(world.now - 600, "an earlier boot", "C10: it failed")


def _loses(world: World) -> None:
    world.lose(B)


def _is_held(world: World) -> None:
    """Rank 1 was killed, whatever for, and goes on in the kernel."""
    _, second = _group(world)
    world.unkillable.add(B)
    world.report(second, killed_seconds=30.0)


HAPPENINGS: dict[str, Happen] = {
    "C0 a machine is silent": _loses,
    "C1 an older macOS": _both(lambda w: learn(w, A, version=(26, 1)), _dies),
    "C1 two versions of macOS": _both(lambda w: learn(w, A, version=(26, 4)), _dies),
    "C1 no JACCL": _while_forming(_ends(ExitCode.NO_BACKEND)),
    "C1 unequal ranks": _while_forming(
        _ends(ExitCode.UNEQUAL, words="the mlx version is 1 on rank 0 and 2 on rank 1")
    ),
    "C1 a slow link": _both(lambda w: learn_of_port(w, A, gbps=40), _dies),
    "C1 RDMA disabled on a Mac with Thunderbolt 4": _both(_has_thunderbolt4, _dies),
    "C2 RDMA disabled": _both(lambda w: learn(w, A, rdma_enabled=False), _dies),
    "C3 a cable pulled": _both(lambda w: learn_of_port(w, A, connected=False), _dies),
    "C3 a cable swapped": _both(_swaps, _dies),
    "C3 a port down for RDMA alone": _both(lambda w: learn_of_port(w, A, verbs_up=False), _dies),
    "C4 a port over which internet is shared": _both(
        lambda w: learn_of_port(w, A, bridged=True, other_bridge="bridge100"), _dies
    ),
    "C4 a port in a bridge": _both(lambda w: learn_of_port(w, A, bridged=True), _dies),
    "C4 a port without an address": _both(lambda w: learn_of_port(w, A, address=""), _dies),
    "C4 a port without a GID": _both(lambda w: learn_of_port(w, A, mapped_gid=False), _dies),
    "C4 a GID at another index": _both(lambda w: learn_of_port(w, A, gid_index=2), _dies),
    "C4 a GID that the driver refuses": _while_forming(_ends(ExitCode.GID)),
    "C5 no rendezvous": _while_forming(_ends(ExitCode.RENDEZVOUS)),
    "C5 ranks behind a firewall": _both(
        lambda w: learn(w, B, firewall=True), _while_forming(_ends(ExitCode.RENDEZVOUS))
    ),
    "C5 ranks that look for each other behind a firewall": _both(
        lambda w: learn(w, B, firewall=True), _while_forming(_look_for_each_other)
    ),
    "C6 a GID that is not reached": _while_forming(_ends(ExitCode.GID_UNREACHED)),
    "C6 a GID that is not reached, of a port that got its address twice": _both(
        _addresses_twice, _while_forming(_ends(ExitCode.GID_UNREACHED))
    ),
    "C6 no queue pair": _while_forming(_ends(ExitCode.VERBS)),
    "C6 no protection domain, at a port of which not all is known": _both(
        lambda w: learn_of_port(w, A, verbs_up=None), _while_forming(_ends(ExitCode.KERNEL_OBJECTS))
    ),
    "C7 no protection domain": _while_forming(_ends(ExitCode.KERNEL_OBJECTS)),
    "C8 a crash": _dies,
    "C8 an unexpected error": _ends(ExitCode.UNEXPECTED),
    "C8 a rank that never started": _while_forming(_never_starts),
    "C8 weights that cannot be read": _ends(ExitCode.WEIGHTS, words="model.safetensors is cut short"),
    "C9 a hang": _hangs,
    "C9 a rank 0 that takes no requests": _takes_no_requests,
    "C10 out of memory": _while_forming(_ends(ExitCode.MEMORY, words="this node has too little memory")),
    "C10 out of memory, for which another rank finds nobody": _while_forming(
        _ends(ExitCode.MEMORY, words="this node has too little memory", other=ExitCode.RENDEZVOUS)
    ),
    "C10 out of memory while serving": _ends(ExitCode.MEMORY, words="this node has too little memory"),
    "C10 a GPU fault": _ends(ExitCode.GPU),
    "C10 a GPU fault that a restart of the machine did not mend": _both(_restarted, _ends(ExitCode.GPU)),
    "C10 an abort in Metal": _ends(signal=6, words="[METAL] Command buffer execution failed"),
    "C11 wired memory left": _leaks,
    "C12 a restart": _reboots,
    "C12 two panics": _both(lambda w: learn(w, B, panics=2), _reboots),
    "C12 two panics, one of them over memory": _both(
        lambda w: learn(w, B, panics=2, memory_panics=1), _reboots
    ),
    "C12 two panics of RDMA": _both(
        lambda w: learn(w, B, panics=2, rdma_panics=2, rdma_panics_of_day=2), _reboots
    ),
    "C12 two panics of a cable that is pulled again and again": _both(
        lambda w: learn(w, B, panics=2), lambda w: learn_of_port(w, A, connected=False, peer=None), _reboots
    ),
    "C13 wedged tools": _both(lambda w: learn(w, B, verbs_answer=False), _dies),
    "C14 no route": _while_forming(_ends(ExitCode.NO_ROUTE)),
    "C14 not allowed to use the network": lambda w: learn(w, B, launch_context=False),
    "C15 idle decay": _both(_idles, _ends(ExitCode.VERBS)),
    "C16 a wrong group": _while_forming(_ends(ExitCode.WRONG_GROUP)),
    "C17 no completion": _mute,
    "C18 a rank that SIGKILL does not end": _is_held,
    "C19 a wrong result over RDMA": _ends(ExitCode.WRONG_RESULT),
}
"""By name, which begins with the class."""
