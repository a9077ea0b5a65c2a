"""The commands of `reconciler sandbox`: each does what it says, and is taken back as it says."""

from __future__ import annotations

import pytest

from reconciler.errors import Invalid
from reconciler.sandbox.acts.act import Moment, Result
from reconciler.sandbox.commands import COMMANDS, happen
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.state import GIB, World

NOW = 1_800_000_000.0
MOMENT = Moment(NOW, "another boot")
LASTING = ("reboot", "panic", "rdma", "bridge", "pull", "retake", "slow-shutdown", "lock", "share-internet")
"""What restarts a machine, or takes addresses of ports, is taken back, and leaves that."""
TAKEN_BACK = [name for name, command in COMMANDS.items() if not command.back and name not in LASTING]


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


@pytest.mark.parametrize("name", TAKEN_BACK)
def test_what_is_taken_back_is_as_before(name: str) -> None:
    line = f"{name} {COMMANDS[name].examples[0]}"
    back = do(do(world(), line).world, line, undo=True).world
    if name in ("lose-ipv4", "change-address", "keep-address"):
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


def test_a_machine_that_locks_itself_is_unlocked_and_keeps_no_filevault() -> None:
    locked = do(world(), "lock studio-1").world
    assert not locked.machine("studio-1").is_up(NOW + 1e9)
    back = do(locked, "lock studio-1", undo=True).world.machine("studio-1")
    assert (back.is_up(NOW), back.filevault, back.boot_id) == (True, False, "another boot")


def test_a_kernel_panics_as_often_as_percent_says_and_in_no_other_number() -> None:
    fragile = do(world(), "fragile studio-2 30 60").world.machine("studio-2")
    assert (fragile.faults.panic_percent, fragile.faults.panic_seconds) == (30.0, 60.0)
    for percent in ("-1", "101"):
        with pytest.raises(Invalid, match="0 to 100 percent"):
            do(world(), f"fragile studio-2 {percent}")


def test_who_pulls_a_cable_brings_the_machine_at_its_other_end_down() -> None:
    pulled = do(world(), "pull studio-1/3 20").world
    assert pulled.peer_of(("studio-1", 3)) is None
    assert pulled.machine("studio-1").is_up(NOW)
    assert not pulled.machine("studio-2").is_up(NOW + 19)
    assert len(pulled.machine("studio-2").panics) == 1
    back = do(pulled, "pull studio-1/3", undo=True).world
    assert back.peer_of(("studio-1", 3)) == ("studio-2", 3)
    assert back.machine("studio-2").panics == ()


def test_a_slow_shutdown_comes_before_the_boot_of_this_restart_and_of_the_next() -> None:
    slow = do(world(), "slow-shutdown studio-1 60").world
    assert slow.machine("studio-1").away_until == NOW + 60 + changes.BOOT_SECONDS
    again = do(slow, "reboot studio-1").world.machine("studio-1")
    assert again.away_until == NOW + 60 + changes.BOOT_SECONDS
    quick = do(slow, "slow-shutdown studio-1", undo=True).world
    assert do(quick, "reboot studio-1").world.machine("studio-1").away_until == NOW + changes.BOOT_SECONDS


def test_ports_that_the_bridge_takes_back_are_left_out_once_it_is_taken_back() -> None:
    taken = do(world(), "retake studio-1/3").world
    assert taken.port(("studio-1", 3)).bridged
    left = do(taken, "retake studio-1/3", undo=True).world
    port = left.port(("studio-1", 3))
    assert (port.bridged, port.kept) == (False, None)


def test_what_the_driver_and_killed_ranks_hold_is_free_after_a_restart() -> None:
    held = changes.leak_killed(
        do(do(world(), "busy-qp studio-1").world, "leaky studio-1 1 4").world, "studio-1"
    )
    mac = held.machine("studio-1")
    assert (mac.domains_held, mac.leaked_bytes, mac.faults.pairs_busy) == (1, 4 * GIB, True)
    mac = do(held, "reboot studio-1").world.machine("studio-1")
    assert (mac.domains_held, mac.leaked_bytes, mac.faults.pairs_busy) == (0, 0, False)


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
