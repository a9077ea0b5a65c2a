"""What JACCL says on an emulated Mac that is not ready for it, and where addresses lead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.runner.model.mlx_errors import meaning
from reconciler.sandbox.emulated import jaccl
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.preconditions import GPU, Destination, destination, joining, opening, passes
from reconciler.sandbox.world.state import End, World
from reconciler.wire.launch import ExitCode

NOW = 1000.0
NAMES = ("a", "b", "c")
WORLD = changes.addressed(macs.world(NAMES, "mini", macs.MESH, NAMES, 0.0))
CABLE = next(cable for cable in WORLD.cables if {cable.a[0], cable.b[0]} == {"a", "b"})
HERE, THERE = CABLE.ends
DEVICE = WORLD.port(HERE).device


def opened(world: World, held: int = 0, device: str = DEVICE) -> str:
    return opening(world, NOW, "a", [device], {device: held})


def joined(world: World, mine: End = HERE, theirs: End = THERE) -> str:
    return joining(world, mine, theirs)


def test_what_is_ready_is_opened_and_joined_from_both_ends() -> None:
    assert (opened(WORLD), joined(WORLD), joined(WORLD, THERE, HERE)) == ("", "", "")


@pytest.mark.parametrize("name", ["a", "b"])
def test_queue_pairs_that_one_end_refuses_fail_as_over_a_wrong_cable_and_nothing_else_shows_it(
    name: str,
) -> None:
    refusing = changes.fault(WORLD, name, pairs_refused=True)
    assert joined(refusing).endswith("Changing queue pair to RTR failed with errno 60")
    assert meaning(joined(refusing)) == ExitCode.GID_UNREACHED
    assert opened(refusing) == ""


@pytest.mark.parametrize(
    ("world", "text", "code"),
    [
        (changes.rdma(WORLD, "a", False), f"Could not find device {DEVICE} (0 available)", ExitCode.VERBS),
        (changes.rdma(WORLD, "b", False), "Couldn't allocate protection domain", ExitCode.KERNEL_OBJECTS),
        (changes.unplug(WORLD, HERE), "Couldn't allocate protection domain", ExitCode.KERNEL_OBJECTS),
        (changes.slow(WORLD, HERE), "Couldn't allocate protection domain", ExitCode.KERNEL_OBJECTS),
        (changes.dock(WORLD, HERE), "Couldn't allocate protection domain", ExitCode.KERNEL_OBJECTS),
        (changes.exhaust_pd(WORLD, "a"), "Couldn't allocate protection domain", ExitCode.KERNEL_OBJECTS),
        (changes.lose_ipv4(WORLD, "a"), "No IPv4-mapped GID for this device.", ExitCode.GID),
        (
            changes.with_machine(WORLD, "a", gids_from=NOW + 1),
            "No IPv4-mapped GID for this device.",
            ExitCode.GID,
        ),
    ],
)
def test_a_device_that_cannot_be_opened_is_reported_in_jaccls_words(
    world: World, text: str, code: int
) -> None:
    message = opened(world)
    assert text in message
    assert meaning(message) == code


def test_a_device_that_others_use_runs_out_of_what_the_kernel_has_of_it() -> None:
    assert "Register memory region failed" in opened(WORLD, held=1)
    assert "Creating the queue pair failed with 'Resource busy (16)'" in opened(WORLD, held=10)
    assert "Couldn't allocate protection domain" in opened(WORLD, held=11)
    assert "Could not find device rdma_en9 (3 available)" in opened(WORLD, device="rdma_en9")


@pytest.mark.parametrize(
    ("world", "theirs", "number", "code"),
    [
        (WORLD, (THERE[0], THERE[1] + 1), 60, ExitCode.GID_UNREACHED),
        (WORLD, ("c", 1), 60, ExitCode.GID_UNREACHED),
        (changes.bridge(WORLD, "a"), THERE, 96, ExitCode.GID),
        (changes.bridge(WORLD, "b"), THERE, 60, ExitCode.GID_UNREACHED),
        (changes.unplug(WORLD, HERE), THERE, 60, ExitCode.GID_UNREACHED),
        (changes.move_gid(WORLD, "a", None, 2), THERE, 22, ExitCode.GID),
        (changes.move_gid(WORLD, "b", None, 2), THERE, 22, ExitCode.GID),
        (changes.fault(WORLD, "a", pairs_busy=True), THERE, 16, ExitCode.KERNEL_OBJECTS),
    ],
)
def test_queue_pairs_that_are_not_the_two_ends_of_one_cable_are_not_connected(
    world: World, theirs: End, number: int, code: int
) -> None:
    message = joined(world, theirs=theirs)
    assert message == f"[jaccl] Changing queue pair to RTR failed with errno {number}"
    assert meaning(message) == code


def test_two_swapped_cables_fail_at_every_end_that_was_moved() -> None:
    other = next(cable for cable in WORLD.cables if {cable.a[0], cable.b[0]} == {"a", "c"})
    end = other.a if other.a[0] == "a" else other.b
    swapped = changes.swap(WORLD, HERE, end)
    assert joined(swapped).endswith("errno 60")
    assert joined(swapped, THERE, HERE).endswith("errno 60")


def test_metals_words_are_understood() -> None:
    assert {fault: meaning(text) for fault, text in GPU.items()} == {
        "timeout": ExitCode.GPU,
        "oom": ExitCode.MEMORY,
    }


# --- addresses -------------------------------------------------------------------------------------


def test_the_address_of_a_port_is_found_over_its_own_cable_alone() -> None:
    ip = WORLD.port(THERE).ip
    assert destination(WORLD, "a", ip, "") == Destination("a", "b", (HERE, THERE))
    assert destination(WORLD, "b", ip, "") == Destination("b", "b")
    assert destination(WORLD, "c", ip, "b") == "ETIMEDOUT"
    assert destination(changes.lose_ipv4(WORLD, "a"), "a", ip, "") == "ETIMEDOUT"


def test_the_network_leads_to_whoever_listens_unless_privacy_forbids_it() -> None:
    assert destination(WORLD, "a", "127.0.0.1", "b") == Destination("a", "b")
    assert destination(WORLD, "a", "127.0.0.1", "") == "ECONNREFUSED"
    private = changes.fault(WORLD, "a", privacy=True)
    assert destination(private, "a", "127.0.0.1", "b") == "EHOSTUNREACH"
    assert destination(private, "a", "127.0.0.1", "a") == Destination("a", "a")


def test_a_firewall_lets_nobody_connect_from_elsewhere_and_itself_anywhere() -> None:
    walled = changes.with_machine(WORLD, "b", firewall=True)
    assert destination(walled, "a", "127.0.0.1", "b") == "ETIMEDOUT"
    assert destination(walled, "a", WORLD.port(THERE).ip, "b") == "ETIMEDOUT"
    assert destination(walled, "b", "127.0.0.1", "b") == Destination("b", "b")
    assert destination(walled, "b", "127.0.0.1", "a") == Destination("b", "a")


LAN, CABLED, OWN = Destination("a", "b"), Destination("a", "b", (HERE, THERE)), Destination("a", "a")


@pytest.mark.parametrize(
    ("happens", "lan", "tcp", "rdma"),
    [
        (lambda world: world, True, True, True),
        (lambda world: changes.unplug(world, HERE), True, False, False),
        (lambda world: changes.lose_ipv4(world, "b"), True, False, True),
        (lambda world: changes.fault(world, "b", partitioned=True), False, True, True),
        (lambda world: changes.fault(world, "b", hung=True), False, False, False),
        (lambda world: changes.reboot(world, "b", NOW, "another"), False, False, False),
        (lambda world: changes.swap(world, HERE, _other_of_a(world)), True, False, False),
    ],
)
def test_what_passes_on_which_way(
    happens: Callable[[World], World], lan: bool, tcp: bool, rdma: bool
) -> None:
    world = happens(WORLD)
    times = passes(world, NOW, LAN), passes(world, NOW, CABLED), passes(world, NOW, CABLED, rdma=True)
    assert times == (lan, tcp, rdma)
    assert passes(world, NOW, OWN)


def _other_of_a(world: World) -> End:
    ends = (end for cable in world.cables for end in cable.ends)
    return next(end for end in ends if end[0] == "a" and end != HERE)


# --- the device matrix -----------------------------------------------------------------------------

MESH = [[None, "x", "y"], ["x", None, "z"], ["y", "z", None]]


def test_a_matrix_is_used_as_a_mesh_unless_a_ring_is_preferred_or_all_there_is() -> None:
    mesh = jaccl.read_devices(MESH)
    assert jaccl.chosen(mesh, prefers_ring=False) == [
        [[], ["x"], ["y"]],
        [["x"], [], ["z"]],
        [["y"], ["z"], []],
    ]
    double = [[None, ["x", "u"], "y"], [["x", "u"], None, "z"], ["y", "z", None]]
    assert jaccl.chosen(jaccl.read_devices(double), prefers_ring=False) == jaccl.chosen(
        mesh, prefers_ring=False
    )
    pair = [[[], ["x", "u"]], [["v", "w"], []]]
    assert jaccl.chosen(jaccl.read_devices(pair), prefers_ring=False) == pair, "all wires of a cell are used"
    four = [[None, "e", None, "w"], ["w", None, "e", None], [None, "w", None, "e"], ["e", None, "w", None]]
    ring = jaccl.read_devices(four)
    assert jaccl.chosen(ring, prefers_ring=False) == jaccl.chosen(ring, prefers_ring=True) == ring


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        ({}, "should start with an array"),
        (["x"], "an array of arrays"),
        ([[None]] * 2, "but rank 0 contains only 1 entries."),
        ([[None, 3], ["x", None]], "Device names should be null, a string or array of strings."),
        ([["x", "x"], [None, "x"]], "should define a valid mesh or a valid ring."),
        ([[None if a == b else "x" for b in range(9)] for a in range(9)], "supports up to 8 peers but 9"),
        ([[None, ["x"] * 5, None], [None, None, ["x"] * 5], [["x"] * 5, None, None]], "a valid mesh or"),
    ],
)
def test_a_matrix_that_makes_no_sense_is_refused_in_jaccls_words(matrix: object, text: str) -> None:
    with pytest.raises(RuntimeError, match="jaccl") as error:
        jaccl.chosen(jaccl.read_devices(matrix), prefers_ring=False)
    assert text in str(error.value)


def test_a_ring_has_four_cables_in_each_direction_at_most() -> None:
    five = [[None, ["x"] * 5], [["x"] * 5, None]]
    with pytest.raises(RuntimeError, match="Up to 4 per direction supported but 5"):
        jaccl.chosen(jaccl.read_devices(five), prefers_ring=True)
