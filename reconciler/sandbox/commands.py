"""The commands of ``reconciler sandbox``: the change of the world, the message, and the undo of each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import Invalid

from .machine_settings import SETTINGS, parse
from .places import PASSWORD
from .tools.system import report_name
from .world import changes
from .world.state import DOMAINS_MAX, GIB, NoSuchThing, World, read_end, shown


@dataclass(frozen=True, slots=True)
class Moment:
    """The further inputs of a change."""

    now: float
    boot_id: str
    """Id for a boot that begins now."""


@dataclass(frozen=True, slots=True)
class Result:
    """The next world, and a message."""

    world: World
    text: str
    kills: str = ""
    """Machine whose ranks are killed."""


Act = Callable[[World, Sequence[str], Moment, bool], Result]
"""A function of the world, the words after the command, and whether to undo it."""


@dataclass(frozen=True, slots=True)
class Command:
    """One fault."""

    usage: str
    """Its arguments, such as ``NODE/RECEPTACLE``; optional ones in brackets."""
    summary: str
    """A sentence."""
    examples: tuple[str, ...]
    act: Act
    back: str = ""
    """The command that undoes it; empty if ``--undo`` does."""


def _unplug(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    cable = world.cable_of(end)
    if undo:
        return _plug(world, words, moment, False)
    after = changes.unplug(world, end)
    assert cable is not None
    return Result(after, f"the cable between {shown(cable.a)} and {shown(cable.b)} is unplugged")


def _plug(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    if undo:
        return _unplug(world, words, moment, False)
    ends = [read_end(word) for word in words]
    after = changes.plug(world, *ends)
    peer = after.peer_of(ends[0])
    assert peer is not None
    return Result(after, f"{shown(ends[0])} and {shown(peer)} are connected")


def _swap(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    a, b = (read_end(word) for word in words)
    after = changes.swap(world, a, b)
    leads = [f"{shown(end)} leads to {shown(peer)}" for end in (a, b) if (peer := after.peer_of(end))]
    return Result(after, " now, and ".join(leads) or "both are unplugged")


def _slow(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    after = changes.slow(world, end, not undo)
    cable = after.cable_of(end)
    assert cable is not None
    return Result(after, f"the cable at {shown(end)} has {cable.gbps} Gb/s")


def _dock(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    end = read_end(words[0])
    after = changes.dock(world, end, "" if undo else changes.DOCK)
    return Result(
        after, f"the cable at {shown(end)} goes {'through no dock' if undo else f'through a {changes.DOCK}'}"
    )


def _rdma(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    on = {"on": True, "off": False}.get(words[0])
    if on is None:
        raise Invalid(
            f"{words[0]!r} is neither on nor off; for example: reconciler sandbox rdma off studio-2"
        )
    on, name = on != undo, words[1]
    after = changes.reboot(changes.rdma(world, name, on), name, moment.now, moment.boot_id)
    return Result(after, f"{name} restarts, with RDMA {'on' if on else 'off'}, as after a visit to Recovery")


def _parse_place(word: str) -> tuple[str, int | None]:
    """Parse a machine, or one of its receptacles."""
    return read_end(word) if "/" in word else (word, None)


def _bridge(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle = _parse_place(words[0])
    after = changes.bridge(world, name, receptacle, not undo)
    ports = f"port {receptacle}" if receptacle else "all ports"
    return Result(after, f"{ports} of {name} {'left' if undo else 'joined'} bridge0")


def _lose_ipv4(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle = _parse_place(words[0])
    ports = f"port {receptacle}" if receptacle else "its ports"
    if undo:
        return Result(
            changes.find_ipv4(world, name, receptacle), f"{name} has given {ports} addresses of 169.254/16"
        )
    return Result(changes.lose_ipv4(world, name, receptacle), f"{name} has no IPv4 address on {ports}")


def _readdress(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle = _parse_place(words[0])
    after = changes.readdress(world, name, receptacle, undo)
    ports = f"port {receptacle}" if receptacle else "its ports"
    return Result(
        after, f"{name} has given {ports} {'the first' if undo else 'other'} addresses of 169.254/16"
    )


def _gid_index(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, receptacle = _parse_place(words[0])
    index = 1 if undo else int(_number(words[1:], 2))
    ports = f"port {receptacle}" if receptacle else "all ports"
    after = changes.move_gid(world, name, receptacle, index)
    return Result(after, f"the mapped GID of {ports} of {name} has index {index}")


def _late_gid(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    seconds = 0.0 if undo else _number(words[1:], LATE_SECONDS)
    after = changes.with_machine(world, words[0], gids_from=moment.now + seconds if seconds else 0.0)
    return Result(
        after,
        f"the devices of {words[0]} publish their mapped GIDs {f'in {seconds:g} s' if seconds else 'now'}",
    )


def _reboot(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name = words[0]
    if undo:
        return Result(changes.unlock(world, name, moment.now), f"the disk of {name} is unlocked")
    seconds = _number(words[1:], changes.BOOT_SECONDS)
    after = changes.reboot(world, name, moment.now, moment.boot_id, seconds)
    locked = after.machine(name).away_until == changes.AT_THE_LOCK
    waits = (
        f"waits for the password of its disk, and answers SSH meanwhile by password only; to unlock it: reconciler sandbox"
        f" reboot {name} --undo, or log in over SSH with the password {PASSWORD}"
    )
    return Result(after, f"{name} {waits if locked else f'is back in {seconds:g} s'}")


def _panic(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name = words[0]
    if undo:
        return Result(changes.with_machine(world, name, panics=()), f"{name} has no panic reports any more")
    seconds = _number(words[1:], changes.PANIC_SECONDS)
    report = report_name("panic", moment.now)
    after = changes.panic(world, name, moment.now, moment.boot_id, report, seconds)
    return Result(after, f"the kernel of {name} panicked; it is back in {seconds:g} s, with {report}")


def _kill(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    world.machine(words[0])
    return Result(world, f"the ranks on {words[0]} are killed", kills=words[0])


def _unkillable(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, seconds = words[0], 0.0 if undo else _number(words[1:], changes.WATCHDOG_SECONDS)
    if seconds < 0 or (not undo and not seconds):
        raise Invalid("expected more than 0 seconds, for example: reconciler sandbox unkillable studio-2 20")
    after = changes.fault(world, name, unkillable_seconds=seconds)
    if undo:
        return Result(after, f"{name}: its kernel lets its ranks end")
    text = f"{name}: its kernel holds its ranks at their exit; a shutdown takes {seconds:g} s"
    return Result(after, text, kills=name)


def _hold_port(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    count = 0 if undo else int(_number(words[1:], 1))
    after = changes.fault(world, words[0], ports_held=count)
    return Result(after, f"the next {count} ranks on {words[0]} find their port in use")


def _gpu(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    kind = words[1] if len(words) > 1 else "timeout"
    if kind not in ("timeout", "oom"):
        raise Invalid(
            f"{kind!r} is neither timeout nor oom; for example: reconciler sandbox gpu-fault studio-1 oom"
        )
    after = changes.fault(world, words[0], gpu="" if undo else kind)
    effect = {"timeout": "the next work of its GPU times out", "oom": "its GPU has no memory for any work"}[
        kind
    ]
    return Result(after, f"{words[0]}: {'its GPU works' if undo else effect}")


def _decay(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    minutes = 0.0 if undo else _number(words[1:], DECAY_MINUTES)
    for machine in world.machines:  # time passes everywhere
        world = changes.fault(world, machine.name, idle_seconds=60 * minutes)
    effect = "its queue pairs are as new" if undo else "its queue pairs fail when they are used next"
    passed = f"{minutes:g} minutes have passed without a request; " if minutes else ""
    return Result(changes.fault(world, words[0], decayed=not undo), f"{words[0]}: {passed}{effect}")


def _mute(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    how = words[1] if len(words) > 1 else "silent"
    effect = {"silent": "does not answer", "broken": "interrupts its answers"}.get(how)
    if effect is None:
        raise Invalid(
            f"{how!r} is neither silent nor broken; for example: reconciler sandbox mute studio-1 broken"
        )
    after = changes.fault(world, words[0], mute="" if undo else how)
    return Result(after, f"{words[0]}: its rank 0 {'answers' if undo else effect}")


def _leak(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    leaked = 0 if undo else int(_number(words[1:], changes.LEAK_BYTES / GIB) * GIB)
    after = changes.leak_wired(world, words[0], leaked)
    return Result(after, f"{leaked / GIB:g} GiB of wired memory have leaked on {words[0]}")


def _exhaust(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    held = 0 if undo else int(_number(words[1:], DOMAINS_MAX))
    after = changes.exhaust_pd(world, words[0], held)
    return Result(after, f"{held} protection domains of each device of {words[0]} are held without an owner")


def _slow_ssh(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    seconds = 0.0 if undo else _number(words[1:], 3.0)
    after = changes.fault(world, words[0], ssh_seconds=seconds)
    return Result(after, f"commands on {words[0]} wait {seconds:g} s before they begin")


def _jaccl(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    after = changes.with_machine(world, words[0], jaccl=undo)
    return Result(after, f"the runtime of {words[0]} has {'JACCL' if undo else 'no JACCL'}")


def _flag(name: str, on: str, off: str) -> Act:
    """Return an act that sets or clears a field of ``Faults``."""

    def act(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
        return Result(
            changes.fault(world, words[0], **{name: not undo}), f"{words[0]}: {off if undo else on}"
        )

    return act


def _set(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    changed = dict(parse(word) for word in words[1:])
    return Result(changes.with_machine(world, words[0], **changed), f"{words[0]}: {', '.join(words[1:])}")


def _number(words: Sequence[str], otherwise: float) -> float:
    if not words:
        return otherwise
    try:
        return float(words[0])
    except ValueError:
        raise Invalid(f"expected a number, got {words[0]!r}") from None


LATE_SECONDS = 180.0
DECAY_MINUTES = 25.0
"""After some 23 minutes without traffic connections of RDMA have been seen to fail."""
_NODE, _END, _PLACE = "NODE", "NODE/RECEPTACLE", "NODE[/RECEPTACLE]"

COMMANDS: Mapping[str, Command] = {
    "unplug": Command(_END, "Unplug a Thunderbolt cable.", ("studio-1/3",), _unplug, "plug"),
    "plug": Command(
        f"{_END} [{_END}]", "Plug in an unplugged cable, or a new one between two receptacles.",
        ("studio-1/3", "studio-1/6 studio-2/6"), _plug, "unplug",
    ),
    "swap-cables": Command(
        f"{_END} {_END}", "Swap one end of two cables; a second swap restores them.",
        ("studio-1/3 studio-1/4",), _swap, "swap-cables",
    ),
    "slow-cable": Command(_END, "Replace a cable by a Thunderbolt 4 cable.", ("studio-1/3",), _slow),
    "dock": Command(_END, "Put a dock between the two ends of a cable.", ("studio-1/3",), _dock),
    "rdma": Command("on|off NODE", "Enable or disable RDMA as in Recovery, with a restart.", ("off studio-2", "on studio-2"), _rdma),
    "bridge": Command(_PLACE, "Add ports to bridge0.", ("studio-1/3", "studio-1"), _bridge),
    "lose-ipv4": Command(_PLACE, "Remove the IPv4 addresses of ports.", ("studio-1/3", "studio-1"), _lose_ipv4),
    "change-address": Command(
        _PLACE, "Give ports another automatic IPv4 address (169.254/16).", ("studio-1/3", "studio-1"), _readdress
    ),
    "gid-index": Command(
        f"{_PLACE} [INDEX]", "Publish the IPv4-mapped GIDs of ports at another index.", ("studio-1/3", "studio-1 4"), _gid_index
    ),
    "late-gid": Command(
        f"{_NODE} [SECONDS]", "Publish the IPv4-mapped GIDs of a machine only after some time.", ("studio-1", "studio-1 60"), _late_gid
    ),
    "reboot": Command(
        f"{_NODE} [SECONDS]", "Restart a machine: everything there ends, and it is away for a while.",
        ("studio-3", "studio-3 60"), _reboot,
    ),
    "panic": Command(f"{_NODE} [SECONDS]", "Simulate a kernel panic: a restart, and a panic report.", ("studio-3", "studio-3 20"), _panic),
    "hang": Command(
        _NODE, "Make the ranks of a machine hang without ending.", ("studio-2",),
        _flag("hung", "its ranks hang", "its ranks continue"),
    ),
    "kill": Command(_NODE, "Kill the ranks of a machine.", ("studio-2",), _kill, "nothing: ranks are restarted"),
    "unkillable": Command(
        f"{_NODE} [SECONDS]",
        "Hold the ranks of a machine at their exit, as a deadlock in its kernel: nothing ends them but a restart,"
        " whose shutdown takes so long.",
        ("studio-2", "studio-2 20"), _unkillable,
    ),
    "hold-port": Command(
        f"{_NODE} [TIMES]", "Make the next ranks of a machine find their port in use.", ("studio-1", "studio-1 3"), _hold_port
    ),
    "gpu-fault": Command(
        f"{_NODE} [timeout|oom]", "Make the GPU of a machine fail.", ("studio-2", "studio-2 oom"), _gpu
    ),
    "privacy": Command(
        _NODE, "Block connections by local network privacy (errno 65).", ("studio-2",),
        _flag("privacy", "macOS lets its ranks reach no other machine", "its ranks may use the local network"),
    ),
    "no-jaccl": Command(_NODE, "Replace MLX by a build without JACCL.", ("studio-2",), _jaccl),
    "leak-wired": Command(f"{_NODE} [GIB]", "Leak wired memory.", ("studio-2", "studio-2 200"), _leak),
    "exhaust-pd": Command(
        f"{_NODE} [COUNT]", "Use up protection domains of the RDMA driver.", ("studio-2",), _exhaust
    ),
    "wedge-verbs": Command(
        _NODE, "Make the RDMA tools of a machine hang.", ("studio-2",),
        _flag("verbs_wedged", "its RDMA tools hang", "its RDMA tools answer"),
    ),
    "refuse-qp": Command(
        _NODE, "Make queue pairs with a machine fail to connect (errno 60), without any other sign.", ("studio-2",),
        _flag("pairs_refused", "its queue pairs do not connect", "its queue pairs connect"),
    ),
    "decay": Command(
        f"{_NODE} [MINUTES]", "Let time pass without a request, after which the queue pairs of a machine fail.",
        ("studio-2", "studio-2 60"), _decay,
    ),
    "alone": Command(
        _NODE, "Make MLX form groups of one on a machine, without an error.", ("studio-2",),
        _flag("alone", "its ranks are alone", "its ranks find each other"),
    ),
    "mute": Command(
        f"{_NODE} [silent|broken]", "Lose or interrupt the answers of a machine's rank 0 while it makes progress.",
        ("studio-1", "studio-1 broken"), _mute,
    ),
    "slow-ssh": Command(f"{_NODE} [SECONDS]", "Delay commands over SSH.", ("studio-2 5",), _slow_ssh),
    "partition": Command(
        _NODE, "Cut a machine off from the network, except for its Thunderbolt cables.", ("studio-2",),
        _flag("partitioned", "it is cut off from the network", "it is connected to the network"),
    ),
    "set": Command(
        f"{_NODE} NAME=VALUE...", f"Set other properties of a machine: {', '.join(SETTINGS)}.",
        ("studio-1 version=26.1", "studio-1 filevault=on sleep=10"), _set, "set",
    ),
}  # fmt: skip
"""All commands by name, in the order of help."""


def happen(world: World, name: str, words: Sequence[str], moment: Moment, undo: bool = False) -> Result:
    """Return the result of a command. Raises ``Invalid`` for a wrong one, with a right example."""
    command = COMMANDS.get(name)
    if command is None:
        raise NoSuchThing(f"there is no {name!r}; expected one of {', '.join(COMMANDS)}")
    needed = [word for word in command.usage.split() if not word.startswith("[")]
    if len(words) < len(needed):
        raise Invalid(
            f"expected {command.usage}; for example: reconciler sandbox {name} {command.examples[0]}"
        )
    if undo and command.back:
        raise Invalid(f"undo {name} with {command.back}, not with --undo")
    return command.act(world, words, moment, undo)
