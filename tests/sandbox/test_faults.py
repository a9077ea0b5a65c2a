"""The commands of `reconciler sandbox`: each does what it says, and is taken back as it says."""

from __future__ import annotations

import pytest

from reconciler.errors import Invalid
from reconciler.sandbox.commands import COMMANDS, Moment, Result, happen
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.state import World

NOW = 1_800_000_000.0
MOMENT = Moment(NOW, "another boot")
TAKEN_BACK = [name for name, command in COMMANDS.items() if not command.back]


def world() -> World:
    names = ["studio-1", "studio-2", "studio-3", "studio-4"]
    return changes.addressed(macs.world(names, "studio", macs.MESH, names, NOW - 60))


def do(world: World, line: str, undo: bool = False) -> Result:
    name, *words = line.split()
    return happen(world, name, words, MOMENT, undo)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_does_something_and_says_what(name: str) -> None:
    for words in COMMANDS[name].examples:
        before = world()
        if name == "plug":
            before = do(before, "unplug studio-1/3").world
        if words.startswith("on "):
            before = do(before, "rdma off studio-2").world
        came = do(before, f"{name} {words}")
        assert came.text
        assert came.world != before or came.kills


@pytest.mark.parametrize(
    "name", [name for name in TAKEN_BACK if name not in ("reboot", "panic", "rdma", "bridge")]
)
def test_what_is_taken_back_is_as_before(name: str) -> None:
    line = f"{name} {COMMANDS[name].examples[0]}"
    back = do(do(world(), line).world, line, undo=True).world
    if name in ("lose-ipv4", "change-address"):
        assert back.port(("studio-1", 3)).ip.startswith("169.254.")
    else:
        assert back == world()


def test_time_without_requests_passes_on_every_machine_though_one_alone_decays() -> None:
    after = do(world(), "decay studio-2 60").world
    assert {machine.faults.idle_seconds for machine in after.machines} == {3600.0}
    assert [machine.name for machine in after.machines if machine.faults.decayed] == ["studio-2"]


def test_the_others_are_undone_by_a_command() -> None:
    assert do(do(world(), "unplug studio-3/4").world, "plug studio-3/4").world == world()
    swap = "swap-cables studio-1/3 studio-1/4"
    assert do(do(world(), swap).world, swap).world == world()
    off = do(world(), "rdma off studio-2").world
    assert off.machine("studio-2").boot_id == "another boot"
    assert do(off, "rdma off studio-2", undo=True).world.machine("studio-2").rdma_enabled
    bridged = do(world(), "bridge studio-1/3").world
    assert not do(bridged, "bridge studio-1/3", undo=True).world.port(("studio-1", 3)).bridged


def test_a_locked_disk_is_unlocked_by_taking_the_reboot_back() -> None:
    locked = do(do(world(), "set studio-1 filevault=on").world, "reboot studio-1")
    assert "--undo" in locked.text
    assert do(locked.world, "reboot studio-1", undo=True).world.machine("studio-1").is_up(NOW)


@pytest.mark.parametrize(
    ("line", "undo", "message"),
    [
        ("unplg studio-1/3", False, "there is no 'unplg'"),
        ("unplug", False, "expected NODE/RECEPTACLE; for example: reconciler sandbox unplug studio-1/3"),
        ("unplug studio-1/3", True, "undo unplug with plug"),
        ("rdma of studio-1", False, "neither on nor off"),
        ("gpu-fault studio-1 hot", False, "neither timeout nor oom"),
        ("reboot studio-1 soon", False, "expected a number"),
        ("set studio-1 colour=red", False, "cannot be set"),
        ("set studio-1 filevault=maybe", False, "not a value of filevault"),
        ("kill studio-9", False, "no emulated machine 'studio-9'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(line: str, undo: bool, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        do(world(), line, undo)
