"""Acts on machines: their restarts, settings, network and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reconciler.errors import Invalid
from reconciler.sandbox.places import PASSWORD
from reconciler.sandbox.tools.system import report_name
from reconciler.sandbox.world import changes
from reconciler.sandbox.world.state import DOMAINS_MAX, GIB, World

from .act import Moment, Result, number

_switch = {"on": True, "off": False}.__getitem__
SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "version": ("version", str),
    "build": ("build", str),
    "sleep": ("sleep_minutes", int),
    "shutdown": ("shutdown_seconds", float),
    "filevault": ("filevault", _switch),
    "firewall": ("firewall", _switch),
    "updates": ("updates", _switch),
    "indexing": ("weights_indexed", _switch),
    "backup": ("weights_backed_up", _switch),
    "managed": ("managed", _switch),
    "sudo": ("sudo", _switch),
    "background": ("background", _switch),
}
"""The field of the machine and the function that reads a value, by the name that people write."""
CONTROLLER = "controller"
"""Names the controller's own machine."""
_WAITS = "waits for the password of its disk, and answers SSH meanwhile by password only; to unlock it: reconciler sandbox"
_OR_LOGIN = f"log in over SSH with the password {PASSWORD}"


def rdma(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    on = {"on": True, "off": False}.get(words[0])
    if on is None:
        raise Invalid(
            f"{words[0]!r} is neither on nor off; for example: reconciler sandbox rdma off studio-2"
        )
    on, name = on != undo, words[1]
    after = changes.reboot(changes.rdma(world, name, on), name, moment.now, moment.boot_id)
    return Result(after, f"{name} restarts, with RDMA {'on' if on else 'off'}, as after a visit to Recovery")


def reboot(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name = words[0]
    if undo:
        return Result(changes.unlock(world, name, moment.now), f"the disk of {name} is unlocked")
    seconds = number(words[1:], changes.BOOT_SECONDS)
    after = changes.reboot(world, name, moment.now, moment.boot_id, seconds)
    if after.machine(name).away_until == changes.AT_THE_LOCK:
        return Result(after, f"{name} {_WAITS} reboot {name} --undo, or {_OR_LOGIN}")
    return Result(after, f"{name} is back in {seconds:g} s")


def lock(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name = words[0]
    if undo:
        locked = world.machine(name).away_until == changes.AT_THE_LOCK
        after = changes.unlock(world, name, moment.now) if locked else world
        return Result(changes.with_machine(after, name, filevault=False), f"the disk of {name} is unlocked")
    after = changes.lock(world, name, moment.now, moment.boot_id)
    return Result(after, f"{name} {_WAITS} lock {name} --undo, or {_OR_LOGIN}")


def slow_shutdown(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, seconds = words[0], 0.0 if undo else number(words[1:], changes.WATCHDOG_SECONDS)
    after = changes.with_machine(world, name, shutdown_seconds=seconds)
    if undo:
        return Result(after, f"{name} shuts down at once")
    after = changes.reboot(after, name, moment.now, moment.boot_id)
    return Result(after, f"{name} restarts, and is back in {seconds + changes.BOOT_SECONDS:g} s")


def firewall(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    after = changes.with_machine(world, words[0], firewall=not undo)
    return Result(
        after,
        f"the firewall of {words[0]} {'lets everybody' if undo else 'lets nobody'} connect to its ranks",
    )


def change_lan(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    after = changes.move(world, words[0], undo)
    return Result(
        after, f"{words[0]} has the address {after.machine(words[0]).lan}, and its connections have ended"
    )


def privacy(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    if words[0] == CONTROLLER:
        effect = (
            "may use the local network"
            if undo
            else "is kept out of the local network, and its connections have ended"
        )
        return Result(replace(world, controller_private=not undo), f"the controller {effect}")
    effect = "its ranks may use the local network" if undo else "macOS lets its ranks reach no other machine"
    return Result(changes.fault(world, words[0], privacy=not undo), f"{words[0]}: {effect}")


def panic(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name = words[0]
    if undo:
        return Result(changes.with_machine(world, name, panics=()), f"{name} has no panic reports any more")
    seconds = number(words[1:], changes.PANIC_SECONDS)
    report = report_name("panic", moment.now)
    after = changes.panic(world, name, moment.now, moment.boot_id, report, seconds)
    return Result(after, f"the kernel of {name} panicked; it is back in {seconds:g} s, with {report}")


def leak(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    leaked = 0 if undo else int(number(words[1:], changes.LEAK_BYTES / GIB) * GIB)
    after = changes.leak_wired(world, words[0], leaked)
    return Result(after, f"{leaked / GIB:g} GiB of wired memory have leaked on {words[0]}")


def exhaust(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    held = 0 if undo else int(number(words[1:], DOMAINS_MAX))
    after = changes.exhaust_pd(world, words[0], held)
    return Result(after, f"{held} protection domains of each device of {words[0]} are held without an owner")


def slow_ssh(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    seconds = 0.0 if undo else number(words[1:], 3.0)
    after = changes.fault(world, words[0], ssh_seconds=seconds)
    return Result(after, f"commands on {words[0]} wait {seconds:g} s before they begin")


def jaccl(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    after = changes.with_machine(world, words[0], jaccl=undo)
    return Result(after, f"the runtime of {words[0]} has {'JACCL' if undo else 'no JACCL'}")


def set_properties(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    changed = dict(_property(word) for word in words[1:])
    return Result(changes.with_machine(world, words[0], **changed), f"{words[0]}: {', '.join(words[1:])}")


def _property(word: str) -> tuple[str, Any]:
    """Return the field and the value in ``NAME=VALUE``. Raises ``Invalid``."""
    name, _, value = word.partition("=")
    if name not in SETTINGS:
        raise Invalid(f"{name!r} cannot be set; expected one of {', '.join(SETTINGS)}")
    field, read = SETTINGS[name]
    try:
        return field, read(value)
    except (KeyError, ValueError):
        raise Invalid(f"{value!r} is not a value of {name}; expected a number, or on or off") from None
