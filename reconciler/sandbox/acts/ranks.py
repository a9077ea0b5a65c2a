"""Acts on the ranks of a machine, and on the resources that they need."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.errors import Invalid
from reconciler.sandbox.world import changes
from reconciler.sandbox.world.state import GIB, World

from .act import Moment, Result, number

DECAY_MINUTES = 25.0
"""RDMA connections have been seen to fail after some 23 minutes without traffic."""
LEAKED_GIB = 8.0


def kill(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    world.machine(words[0])
    return Result(world, f"the ranks on {words[0]} are killed", kills=words[0])


def unkillable(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, seconds = words[0], 0.0 if undo else number(words[1:], changes.WATCHDOG_SECONDS)
    if seconds < 0 or (not undo and not seconds):
        raise Invalid("expected more than 0 seconds, for example: reconciler sandbox unkillable studio-2 20")
    after = changes.fault(world, name, unkillable_seconds=seconds)
    if undo:
        return Result(after, f"{name}: its kernel lets its ranks end")
    text = f"{name}: its kernel holds its ranks at their exit; a shutdown takes {seconds:g} s"
    return Result(after, text, kills=name)


def leaky(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name = words[0]
    domains = 0 if undo else int(number(words[1:], 1))
    wired = 0 if undo else int(number(words[2:], LEAKED_GIB) * GIB)
    after = changes.fault(world, name, leaked_per_kill=domains, wired_per_kill=wired)
    if undo:
        after = changes.with_machine(after, name, domains_held=0, leaked_bytes=0)
        return Result(after, f"{name}: killed ranks leave nothing behind")
    held = f"{domains} protection domain{'s' if domains > 1 else ''} of each device it used"
    text = f"{name}: each killed rank leaves {held} and {wired / GIB:g} GiB wired"
    return Result(after, text, kills=name)


def fragile(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    name, percent = words[0], 0.0 if undo else number(words[1:], 100)
    seconds = 0.0 if undo else number(words[2:], changes.PANIC_SECONDS)
    if not 0 <= percent <= 100:
        raise Invalid(
            f"expected 0 to 100 percent, got {percent:g}; for example: reconciler sandbox fragile studio-2 30"
        )
    after = changes.fault(world, name, panic_percent=percent, panic_seconds=seconds)
    if undo:
        after = changes.with_machine(after, name, panics=(), rdma_panics=())
        return Result(after, f"{name}: its kernel is sound, and has no panic reports")
    text = f"in {percent:g} of 100 cases, a killed rank or an unplugged cable that ranks use ends in a panic"
    return Result(after, f"{name}: {text}, and in a restart of {seconds:g} s")


def hold_port(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    count = 0 if undo else int(number(words[1:], 1))
    after = changes.fault(world, words[0], ports_held=count)
    return Result(after, f"the next {count} ranks on {words[0]} find their port in use")


def gpu(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
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


def decay(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    minutes = 0.0 if undo else number(words[1:], DECAY_MINUTES)
    for machine in world.machines:  # time passes everywhere
        world = changes.fault(world, machine.name, idle_seconds=60 * minutes)
    effect = "its queue pairs are as new" if undo else "its queue pairs fail when they are used next"
    passed = f"{minutes:g} minutes have passed without a request; " if minutes else ""
    return Result(changes.fault(world, words[0], decayed=not undo), f"{words[0]}: {passed}{effect}")


def mute(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    how = words[1] if len(words) > 1 else "silent"
    effect = {
        "silent": "does not answer",
        "broken": "interrupts its answers",
        "deaf": "takes no requests",
    }.get(how)
    if effect is None:
        raise Invalid(
            f"expected silent, broken or deaf, got {how!r}; for example: reconciler sandbox mute studio-1 broken"
        )
    after = changes.fault(world, words[0], mute="" if undo else how)
    return Result(after, f"{words[0]}: its rank 0 {'answers' if undo else effect}")


def garbage(world: World, words: Sequence[str], moment: Moment, undo: bool) -> Result:
    how = words[1] if len(words) > 1 else "sums"
    effect = {
        "sums": "sums of large arrays are wrong",
        "zeros": "the second half of large arrays is not received",
        "long": "sums for long prompts are wrong",
    }.get(how)
    if effect is None:
        raise Invalid(
            f"expected sums, zeros or long, got {how!r}; for example: reconciler sandbox garbage studio-1 long"
        )
    after = changes.fault(world, words[0], garbage="" if undo else how)
    return Result(
        after, f"{words[0]}: over RDMA, {'all sums are right' if undo else effect}, without an error"
    )
