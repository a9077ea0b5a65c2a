"""What an emulated Mac's tools say is read by the probes of real Macs, to exactly what the machine is."""

from __future__ import annotations

import random
from dataclasses import replace
from ipaddress import IPv4Interface

import pytest

from reconciler.errors import Invalid
from reconciler.inventory.probes import machine
from reconciler.inventory.probes.table import PROBES, Readings
from reconciler.sandbox.tools.call import Live, Process, ToolCall, ToolOutput
from reconciler.sandbox.tools.system import NEVER_INDEX, report_name
from reconciler.sandbox.tools.table import answer
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.launchd import IO_ERROR, NO_SERVICE, STOP_SECONDS
from reconciler.sandbox.world.state import SHARED, SHARING_BRIDGE, Kept, Machine, World
from reconciler.state import MachineFacts, NodeName, Route
from reconciler.wire.tools import Ending, RunTool, ToolSaid
from tests.inventory.test_collector import report as plain_report
from tests.machines import joined

NOW = 1_800_000_000.0
WORLDS = 400
HOME = "/home/ada"


def run_tool(world: World, name: str, *argv: str, root: bool = True, live: Live = Live()) -> ToolOutput:  # noqa: B008
    """What a tool of a machine says."""
    return answer(ToolCall(world, name, argv, root, NOW, HOME, "ada", live))


def output_for_agent(world: World, name: str, call: RunTool, live: Live) -> ToolSaid:
    """The same, as the agent there would have it."""
    words = [
        word.replace("{home}", HOME)
        .replace("{user}", "ada")
        .replace("{node}", name)
        .replace("{models}", f"{HOME}/models")
        for word in call.argv
    ]
    if words[0] == "{python}":
        mac = world.machine(name)
        return ToolSaid(Ending.ENDED, 0, f"jaccl {mac.jaccl}\nworking set {mac.working_set_bytes}\n")
    came = run_tool(world, name, *words, root=call.as_root, live=live)
    return (
        ToolSaid(Ending.LATE) if came.hangs else ToolSaid(Ending.ENDED, came.code, came.stdout, came.stderr)
    )


def probed(world: World, live: Live = Live()) -> dict[NodeName, MachineFacts]:  # noqa: B008
    """What the product knows of all machines."""
    found = {}
    for each in world.machines:
        readings = Readings(
            {probe.name: probe.read(output_for_agent(world, each.name, probe.call, live)) for probe in PROBES}
        )
        agent_report = replace(plain_report(1), boot_id=each.boot_id, system="Darwin", ranks=())
        found[NodeName(each.name)] = machine.facts(readings, agent_report, machine.Wired(), 0.0)
    return dict(joined(found))


def some_world(chance: random.Random) -> World:
    """A world in which things have happened."""
    kind = chance.choice(["studio", "mini", "macbook", "mini-tb4", "studio-max"])
    names = ["n1", "n2", "n3", "n4"][: chance.randint(1, 4)]
    world = macs.world(
        names, kind, chance.choice([macs.MESH, macs.RING]), [f"boot-{n}" for n in names], NOW - 999
    )
    if chance.random() < 0.6:
        world = changes.addressed(world)
    for _ in range(chance.randint(0, 6)):
        world = something(chance, world)
    return world


def something(chance: random.Random, world: World) -> World:
    """One more thing that happens."""
    name = chance.choice(world.machines).name
    port = chance.choice(world.machine(name).ports).receptacle
    yes = chance.random() < 0.5
    happens = [
        lambda: changes.rdma(world, name, False),
        lambda: changes.bridge(world, name, chance.choice([None, port]), yes),
        lambda: changes.drop_bridge(world, name),
        lambda: changes.lose_ipv4(world, name, port),
        lambda: changes.find_ipv4(world, name),
        lambda: changes.readdress(world, name, port, yes),
        lambda: changes.second_address(world, name, port, yes),
        lambda: changes.with_ports(world, name, chance.choice([None, port]), service=yes),
        lambda: changes.with_machine(world, name, adapter=world.machine(name).bridge and yes),
        lambda: changes.share(world, (name, port), 5.0),
        lambda: changes.move_gid(world, name, port, chance.randint(1, 4)),
        lambda: changes.with_machine(world, name, gids_from=NOW + chance.choice([-1, 60])),
        lambda: changes.exhaust_pd(world, name, chance.randint(0, 11)),
        lambda: changes.reboot(world, name, NOW - chance.choice([0, 60]), "anew"),
        lambda: changes.panic(world, name, NOW - 60, "anew", report_name("panic", NOW - 60)),
        lambda: changes.with_machine(
            world,
            name,
            filevault=yes,
            firewall=yes,
            updates=not yes,
            weights_indexed=yes,
            weights_backed_up=not yes,
            managed=not yes,
            jaccl=yes,
            sleep_minutes=int(yes),
        ),
        lambda: changes.with_machine(world, name, version="27.0", build="26A428", wired_limit_mb=30720),
    ]
    if world.cables:
        end, other = chance.choice(chance.choice(world.cables).ends), chance.choice(world.cables).ends[0]
        happens += [
            lambda: changes.unplug(world, end),
            lambda: changes.plug(world, end),
            lambda: changes.slow(world, end, yes),
            lambda: changes.dock(world, end),
            lambda: changes.hub(world, end),
            lambda: changes.slow_rdma(world, end),
            lambda: changes.swap(world, end, other),
        ]
    try:
        return chance.choice(happens)()
    except Invalid:
        return world


def test_a_panic_has_a_report_about_rdma_where_a_cable_was_pulled_and_else_about_memory() -> None:
    start = macs.world(["n1", "n2"], "mini", macs.MESH, ["boot-1", "boot-2"], NOW - 999)
    (name, _), other = start.cables[0].ends
    panicked = changes.panic(start, name, NOW, "second", report_name("panic", NOW - 7200))
    world = changes.pull(panicked, other, NOW, "third", report_name("panic", NOW - 60), 5.0)
    facts = probed(world)[NodeName(name)]
    assert (facts.panics, facts.rdma_panics, facts.rdma_panics_of_day, facts.memory_panics) == (1, 1, 1, 0)


@pytest.mark.second_tier
@pytest.mark.parametrize("seed", range(0, WORLDS, 100))
def test_probes_read_exactly_what_the_machines_are(seed: int) -> None:
    for each in range(seed, seed + 100):
        world = some_world(random.Random(each))
        facts = probed(world)
        for mac in world.machines:
            _agree(world, mac.name, facts[NodeName(mac.name)])


def _agree(world: World, name: str, facts: MachineFacts) -> None:
    mac = world.machine(name)
    has_driver = any(port.thunderbolt5 for port in mac.ports)
    assert [what for what, _ in facts.unknown] == ([] if has_driver else ["kernel objects"])
    assert facts.version == tuple(map(int, mac.version.split(".")))
    assert (facts.model, facts.chip, facts.jaccl) == (mac.model, mac.chip, mac.jaccl)
    assert (facts.rdma_enabled, facts.verbs_answer) == (mac.rdma_enabled, True)
    assert facts.filevault == mac.filevault
    assert (facts.managed, facts.firewall, facts.updates_itself) == (mac.managed, mac.firewall, mac.updates)
    assert (facts.weights_indexed, facts.weights_backed_up) == (mac.weights_indexed, mac.weights_backed_up)
    assert facts.sleeps == (mac.sleep_minutes > 0)
    assert facts.wired_limit_bytes == mac.wired_limit_mb * 2**20
    assert facts.gpu_bytes == mac.working_set_bytes < mac.memory_bytes
    assert (facts.panics, facts.crashes, facts.stray_ranks) == (len(set(mac.panics)), 0, 0)
    assert facts.bridge_service == mac.bridge
    assert facts.bridged_ethernet == (("en20",) if mac.adapter else ())
    leases = [p for p in mac.ports if p.lease and world.is_active((name, p.receptacle), NOW)]
    assert facts.default_route == (leases[0].interface if leases else "en0")
    assert facts.protection_domains == (mac.domains_held * len(world.devices(name)) if has_driver else None)
    assert [port.receptacle for port in facts.ports] == [port.receptacle for port in mac.ports]
    assert set(facts.routes or ()) == _routes(mac)
    for port, known in zip(mac.ports, facts.ports, strict=True):
        end = (name, port.receptacle)
        cable, active = world.link_of(end), world.is_active(end, NOW)
        has_device = port.device in world.devices(name) if port.device else False
        assert (known.interface, known.device) == (port.interface, port.device if has_device else "")
        assert (known.connected, known.active) == (active, active)
        assert known.gbps == (cable.gbps if cable and active else None)
        assert (known.bridged, known.address, known.other_addresses) == (port.bridged, port.ip, port.ips[1:])
        assert known.other_bridge == (port.bridge if port.bridge != "bridge0" else "")
        assert known.service == (port.label if port.service else "")
        assert known.verbs_up == (world.is_verbs_up(end, NOW) if has_device else None)
        published = world.has_mapped_gid(end, NOW)
        assert known.mapped_gid == (published if has_device else None)
        assert known.gid_index == (port.gid_index if has_device and published else None)
        joined = active and cable is not None and cable.named
        assert known.peer == (world.peer_of(end) if joined else None)
        assert known.through == (cable.docks(end) if cable and active else ())
        assert known.ceiling_gbps == (None if active else 120 if port.thunderbolt5 else 40)


def _routes(mac: Machine) -> set[Route]:
    """Loopback, the LAN, what macOS gives by itself, and a network for each port with an address."""
    fixed = {
        ("127.0.0.0/8", "lo0"),
        ("127.0.0.1/32", "lo0"),
        ("127.0.0.0/8", "en0"),
        ("169.254.0.0/16", "en0"),
    }
    ports = {
        (str(IPv4Interface(address).network), port.interface)
        for port in mac.ports
        for address in port.addresses
        if port.ips
    }
    shares = any(port.bridge == SHARING_BRIDGE for port in mac.ports)
    ports |= {(str(SHARED), SHARING_BRIDGE)} if shares else set()
    return {Route(*each) for each in fixed | ports}


def mesh() -> World:
    return macs.world(["n1", "n2"], "mini", macs.MESH, ["b1", "b2"], NOW - 99)


def test_wedged_verbs_tools_do_not_come_back_and_the_rest_does() -> None:
    world = changes.fault(mesh(), "n1", verbs_wedged=True)
    assert run_tool(world, "n1", "ibv_devinfo").hangs
    facts = probed(world)[NodeName("n1")]
    assert facts.verbs_answer is False
    assert facts.version == (26, 3)


def test_leftover_ranks_are_those_that_have_lost_their_parent() -> None:
    live = Live(
        (Process(10, 1, "python -m reconciler.runner"), Process(11, 10, "python -m reconciler.runner"))
    )
    assert probed(mesh(), live)[NodeName("n1")].stray_ranks == 1


def test_what_changes_the_machine_needs_root_and_is_seen_afterwards() -> None:
    world = mesh()
    steps = (
        ("ifconfig", "bridge0", "deletem", "en2"),
        ("ifconfig", "en2", "inet", "10.77.0.1", "netmask", "255.255.255.252"),
        ("sysctl", "iogpu.wired_limit_mb=30720"),
        ("pmset", "-a", "sleep", "5"),
    )
    for step in steps:
        denied = run_tool(world, "n1", *step, root=False)
        assert denied.code != 0
        assert denied.world is None
        world = run_tool(world, "n1", *step).world or world
    port = world.port(("n1", 1))
    assert (port.bridged, port.address) == (False, "10.77.0.1/30")
    facts = probed(world)[NodeName("n1")]
    assert (facts.wired_limit_bytes, facts.sleeps) == (30720 * 2**20, True)
    assert run_tool(
        world, "n1", "networksetup", "-setmanual", "Thunderbolt 1", "10.0.0.1", "255.255.0.0"
    ).world
    assert run_tool(world, "n1", "ifconfig", "en2", "inet", "10.77.0.1", "-alias").world == changes.lose_ipv4(
        world, "n1", 1
    )


def test_an_address_replaces_the_first_unless_it_is_an_alias_and_each_is_removed_alone() -> None:
    port, end = ("ifconfig", "en2", "inet"), ("n1", 1)
    world = typed(mesh(), "ifconfig bridge0 deletem en2", "ifconfig en2 inet 169.254.3.4 netmask 255.255.0.0")
    both = typed(world, "ifconfig en2 inet 10.77.0.1 netmask 255.255.255.252 alias")
    assert both.port(end).ips == ("169.254.3.4", "10.77.0.1")
    assert typed(both, "ifconfig en2 inet 169.254.3.4 delete").port(end).ips == ("10.77.0.1",)
    assert typed(both, "ifconfig en2 inet 10.77.0.9 netmask 255.255.255.252").port(end).ips == (
        "10.77.0.1",
        "10.77.0.9",
    )
    assert run_tool(both, "n1", *port, "10.77.0.2", "delete").code != 0


def test_only_a_service_of_a_port_sets_its_address_by_itself() -> None:
    world = changes.bridge(mesh(), "n1", 1, False)
    manual = ("networksetup", "-setmanual", "Thunderbolt 1", "10.0.0.1", "255.255.0.0")
    assert run_tool(changes.with_ports(world, "n1", 1, service=False), "n1", *manual).code != 0
    kept = changes.keep(world, "n1", 1, lambda port: Kept(5.0, addresses=(changes.self_assigned(port),)))
    assert kept.port(("n1", 1)).ip.startswith("169.254.")
    set_by_hand = run_tool(kept, "n1", *manual).world
    assert set_by_hand is not None
    assert changes.restore(set_by_hand, "n1", 1).port(("n1", 1)).ips == ("10.0.0.1",)


def test_what_keeps_others_from_the_weights_needs_no_root_and_ends_updates_does() -> None:
    world = changes.with_machine(mesh(), "n1", weights_indexed=True, weights_backed_up=True, updates=True)
    key = ("/Library/Preferences/com.apple.SoftwareUpdate", "AutomaticallyInstallMacOSUpdates")
    assert run_tool(world, "n1", "defaults", "write", *key, "-bool", "false", root=False).world is None
    world = run_tool(world, "n1", "defaults", "write", *key, "-bool", "false").world or world
    for step in (("touch", f"/models/{NEVER_INDEX}"), ("tmutil", "addexclusion", "/models")):
        world = run_tool(world, "n1", *step, root=False).world or world
    facts = probed(world)[NodeName("n1")]
    assert (facts.updates_itself, facts.weights_indexed, facts.weights_backed_up) == (False, False, False)
    for step in (("unlink", f"/models/{NEVER_INDEX}"), ("tmutil", "removeexclusion", "/models")):
        world = run_tool(world, "n1", *step, root=False).world or world
    facts = probed(world)[NodeName("n1")]
    assert (facts.weights_indexed, facts.weights_backed_up) == (True, True)


def test_sudo_becomes_the_command_or_asks_for_a_password() -> None:
    came = run_tool(mesh(), "n1", "sudo", "-n", "/sbin/ifconfig", "en2", "down", root=False)
    assert (came.become, came.as_root) == (("/sbin/ifconfig", "en2", "down"), True)
    locked = changes.with_machine(mesh(), "n1", sudo=False)
    assert "a password is required" in run_tool(locked, "n1", "sudo", "-n", "true", root=False).stderr


def test_only_root_restarts_it() -> None:
    assert run_tool(mesh(), "n1", "shutdown", "-r", "now").reboots
    assert not run_tool(mesh(), "n1", "shutdown", "-r", "now", root=False).reboots


LABEL = "reconciler-ada-n1"
PLIST = f"/Library/LaunchDaemons/{LABEL}.plist"


def test_a_service_is_loaded_and_gone_only_a_moment_after_it_is_unloaded() -> None:
    world = typed(mesh(), f"sudo -n /usr/bin/install -o root -g wheel -m 644 draft {PLIST}")
    assert (status(world, "print"), status(world, "bootstrap")) == (NO_SERVICE, 0)
    loaded = typed(world, f"launchctl bootstrap system {PLIST}")
    assert (status(loaded, "print"), status(loaded, "bootstrap")) == (0, IO_ERROR)
    stopping = typed(loaded, f"launchctl bootout system/{LABEL}")
    assert (status(stopping, "print"), status(stopping, "bootstrap")) == (0, IO_ERROR)
    gone = NOW + STOP_SECONDS
    assert (status(stopping, "print", gone), status(stopping, "bootstrap", gone)) == (NO_SERVICE, 0)


def test_a_disabled_service_is_not_loaded_even_after_a_restart_until_it_is_enabled() -> None:
    world = typed(mesh(), f"sudo -n install draft {PLIST}", f"launchctl bootstrap system {PLIST}")
    assert status(changes.reboot(world, "n1", NOW, "anew"), "print") == 0, "it starts at boot"
    disabled = typed(world, f"launchctl disable system/{LABEL}")
    assert status(disabled, "print") == 0, "it runs until then"
    again = changes.reboot(disabled, "n1", NOW, "anew")
    assert (status(again, "print"), status(again, "bootstrap")) == (NO_SERVICE, IO_ERROR)
    assert status(typed(again, f"launchctl enable system/{LABEL}"), "bootstrap") == 0
    removed = changes.reboot(typed(world, f"sudo -n rm -f {PLIST}"), "n1", NOW, "anew")
    assert (status(removed, "print"), status(removed, "bootstrap")) == (NO_SERVICE, IO_ERROR)


def test_what_a_person_has_switched_off_no_command_loads() -> None:
    world = changes.with_machine(typed(mesh(), f"sudo -n install draft {PLIST}"), "n1", background=False)
    assert status(typed(world, f"launchctl enable system/{LABEL}"), "bootstrap") == IO_ERROR
    allowed = typed(mesh(), f"sudo -n install draft {PLIST}", f"launchctl bootstrap system {PLIST}")
    off = changes.with_machine(allowed, "n1", background=False)
    assert status(changes.reboot(off, "n1", NOW, "anew"), "print") == NO_SERVICE


def test_only_root_changes_services() -> None:
    refused = run_tool(mesh(), "n1", "launchctl", "enable", f"system/{LABEL}", root=False)
    assert (refused.code, refused.world) == (1, None)
    locked = changes.with_machine(mesh(), "n1", sudo=False)
    assert run_tool(locked, "n1", "sudo", "-n", "rm", "-f", PLIST, root=False).become == ()
    assert run_tool(mesh(), "n1", "launchctl", "reboot", "system").code == 64


def typed(world: World, *lines: str) -> World:
    """The world after root has typed these lines, each of which changes it."""
    for line in lines:
        came = run_tool(world, "n1", *line.split())
        assert (came.code, came.world is None) == (0, False), line
        world = came.world or world
    return world


def status(world: World, verb: str, now: float = NOW) -> int:
    """The exit status of ``launchctl``, and that it says something if it fails."""
    words = ("system", PLIST) if verb == "bootstrap" else (f"system/{LABEL}",)
    came = answer(ToolCall(world, "n1", ("launchctl", verb, *words), True, now, HOME, "ada", Live()))
    assert bool(came.stderr) == bool(came.code)
    return came.code
