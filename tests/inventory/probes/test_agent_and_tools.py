"""From the tools of a Mac-shaped machine, run by a real agent, to the facts that planning decides by."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from reconciler.errors import Refused
from reconciler.inventory import Probes
from reconciler.inventory.probes import schedule
from reconciler.inventory.probes.table import PROBES
from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import MachineFacts, PortFacts
from reconciler.wire.node import NodeReport, Observe
from tests.agent.bench import WAIT_SECONDS, Bench
from tests.inventory.test_collector import report as plain_report

from .mac import Mac, agent_on, jaccl

pytestmark = [pytest.mark.processes, pytest.mark.needs("ps")]
"""A Mac's agent asks ``ps``, where Linux has ``/proc``."""


@pytest.fixture
def mac(tmp_path: Path) -> Mac:
    return Mac(tmp_path)


class Clock:
    """Of the controller, set by hand."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


async def reported(link: AgentConnection) -> NodeReport:
    report = await link.request(Observe(), timeout=WAIT_SECONDS)
    assert isinstance(report, NodeReport)
    return report


async def probe_facts(probes: Probes, link: AgentConnection, again: bool = False) -> MachineFacts:
    return await probes(link, await reported(link), again)


async def test_the_tools_of_a_mac_are_run_by_its_agent_and_become_facts(mac: Mac) -> None:
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        facts = await probe_facts(Probes(time.time), link)
    two = next(port for port in facts.ports if port.receptacle == 2)
    assert facts.system == "Darwin"
    assert (facts.version, facts.model, facts.chip) == (
        (26, 3),
        "Mac16,9",
        "Apple M4 Max",
    )
    assert (facts.rdma_enabled, facts.verbs_answer, facts.jaccl, facts.filevault) == (True, True, True, False)
    assert (facts.protection_domains, facts.wired_excess_bytes) == (0, 0)
    assert (facts.panics, facts.crashes, facts.memory_kills) == (0, 0, 0)
    assert (facts.launch_context, facts.sleeps, facts.throttled, facts.managed) == (True, False, False, False)
    assert (facts.wired_limit_bytes, facts.swap_used_bytes, facts.stray_ranks) == (60 * 2**30, 2574778368, 0)
    assert (facts.working_set_bytes, facts.disk_free_bytes) == (48 * 2**30, 67586215936)
    assert [name for name, _ in facts.unknown] == ["network services"]
    assert two == PortFacts(
        2, "en6", "rdma_en6", connected=True, gbps=80, verbs_up=False, peer_model="Mac17,6",
        domain="00000004-0000-4000-8000-000000000004", peer_domain="00000003-0000-4000-8000-000000000003",
    )  # fmt: skip
    one = next(port for port in facts.ports if port.receptacle == 1)
    assert (one.interface, one.connected, one.active, one.bridged, one.address) == (
        "en1",
        False,
        False,
        True,
        "",
    )
    three = next(port for port in facts.ports if port.receptacle == 3)
    assert (three.interface, three.through, three.gbps, three.active) == ("en2", ("SB-XTM5",), 80, True)
    assert (three.bridged, three.address, three.verbs_up) == (True, "169.254.205.255", False)


async def test_a_verbs_tool_that_hangs_is_ended_reported_and_left_alone_for_a_while(
    mac: Mac, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = tuple(
        replace(probe, call=replace(probe.call, seconds=0.5)) if probe.soonest_seconds else probe
        for probe in PROBES
    )
    monkeypatch.setattr(schedule, "PROBES", hasty)
    mac.runs("ibv_devinfo", f"#!/bin/sh\necho x >> {mac.folder}/ibv_devinfo.runs\nexec /bin/sleep 600\n")
    clock = Clock()
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        probes = Probes(clock)
        facts = await probe_facts(probes, link)
        assert facts.verbs_answer is False
        assert dict(facts.unknown)["RDMA ports"] == "ibv_devinfo did not end within 0.5 s"
        assert [port.device for port in facts.ports] == ["rdma_en1", "rdma_en6", "rdma_en2"]
        assert {port.verbs_up for port in facts.ports} == {None}
        clock.now += 30
        await probe_facts(probes, link)
        assert mac.times_run("ibv_devinfo") == 1
        mac.set_output("ibv_devinfo", "ibv_devinfo/active")
        clock.now += 40
        assert (await probe_facts(probes, link)).verbs_answer is True


async def test_tools_are_asked_as_often_as_they_say_and_verbs_also_when_a_port_has_changed(mac: Mac) -> None:
    clock = Clock()
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        probes = Probes(clock)
        await probe_facts(probes, link)
        clock.now += 31
        await probe_facts(probes, link)
        assert (mac.times_run("ifconfig"), mac.times_run("ibv_devinfo"), mac.times_run("sw_vers")) == (
            2,
            1,
            1,
        )
        mac.set_output("ifconfig", "ifconfig/bridge_with_members")
        clock.now += 10
        await probe_facts(probes, link)
        assert (mac.times_run("ifconfig"), mac.times_run("ibv_devinfo"), mac.times_run("sw_vers")) == (
            3,
            2,
            1,
        )
        clock.now += 700
        await probe_facts(probes, link)
        assert (mac.times_run("ifconfig"), mac.times_run("ibv_devinfo"), mac.times_run("sw_vers")) == (
            4,
            3,
            2,
        )
        clock.now += 1
        await probe_facts(probes, link, again=True)
        assert (mac.times_run("ifconfig"), mac.times_run("ibv_devinfo"), mac.times_run("sw_vers")) == (
            5,
            3,
            2,
        )
        clock.now += 31
        await probe_facts(probes, link, again=True)
        assert (mac.times_run("ifconfig"), mac.times_run("ibv_devinfo"), mac.times_run("sw_vers")) == (
            6,
            4,
            2,
        )


async def test_a_port_keeps_its_domain_while_nothing_is_plugged_in(mac: Mac) -> None:
    clock = Clock()
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        probes = Probes(clock)
        before = await probe_facts(probes, link)
        mac.set_output("system_profiler", "system_profiler/idle")
        clock.now += 31
        idle = await probe_facts(probes, link)
    assert {port.receptacle for port in before.ports if port.connected and port.domain}
    assert not any(port.connected or port.peer_domain for port in idle.ports)
    assert [port.domain for port in idle.ports] == [port.domain for port in before.ports]


async def test_devices_are_not_opened_every_five_minutes_while_a_process_uses_rdma(mac: Mac) -> None:
    clock = Clock()
    mac.set_output("ioclasscount", "ioclasscount/held")
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        probes = Probes(clock)
        await probe_facts(probes, link)
        for _ in range(3):
            clock.now += 301
            facts = await probe_facts(probes, link)
        assert (mac.times_run("ibv_devinfo"), mac.times_run("ibv_devices")) == (1, 4)
        assert facts.verbs_answer is True
        mac.set_output("ifconfig", "ifconfig/bridge_with_members")
        clock.now += 31
        await probe_facts(probes, link)
        assert mac.times_run("ibv_devinfo") == 2, "a port has changed"
        mac.set_output("ioclasscount", "ioclasscount/none_held")
        clock.now += 301
        await probe_facts(probes, link)
        assert mac.times_run("ibv_devinfo") == 3, "nobody uses it any more"


async def test_what_a_repair_has_changed_is_probed_again_at_once(mac: Mac) -> None:
    clock = Clock()
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        probes = Probes(clock)
        await probe_facts(probes, link)
        clock.now += 1
        await probe_facts(probes, link, again=True)
        tools = ("defaults", "tmutil", "profiles")
        assert [mac.times_run(tool) for tool in tools] == [1, 1, 1]
        probes.expect(await reported(link))
        await probe_facts(probes, link, again=True)
        assert [mac.times_run(tool) for tool in tools] == [2, 2, 1]


async def test_the_driver_is_asked_at_once_and_again_where_a_port_was_given_an_address(mac: Mac) -> None:
    clock = Clock()
    cases = Path(__file__).parent / "cases" / "ibv_devinfo"
    without, with_gid = (
        (cases / name).read_text().replace("rdma_en7", "rdma_en2")
        for name in ("verbose_without_ipv4.txt", "verbose.txt")
    )
    mac.set_output("ibv_devinfo", without)
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        probes = Probes(clock)
        assert (await probe_facts(probes, link)).ports[2].mapped_gid is False
        clock.now += 6
        await probe_facts(probes, link)
        assert mac.times_run("ibv_devinfo") == 1, "nobody has changed anything"
        probes.expect(await reported(link))
        await probe_facts(probes, link, again=True)
        clock.now += 6
        await probe_facts(probes, link)
        assert mac.times_run("ibv_devinfo") == 3
        mac.set_output("ibv_devinfo", with_gid)
        clock.now += 6
        assert (await probe_facts(probes, link)).ports[2].mapped_gid is True
        clock.now += 6
        await probe_facts(probes, link)
        assert mac.times_run("ibv_devinfo") == 4, "it has told what was expected"
        mac.set_output("ibv_devinfo", without)
        clock.now += 300
        await probe_facts(probes, link)
        clock.now += 6
        await probe_facts(probes, link)
        assert mac.times_run("ibv_devinfo") == 5, "after a minute nothing is expected any more"


async def test_who_wants_to_know_it_now_has_everything_asked_but_for_the_driver_and_what_is_refused(
    mac: Mac,
) -> None:
    clock = Clock()
    mac.set_output("fdesetup", "fdesetup/off")
    mac.set_output("powermetrics", "powermetrics/no_sudo")
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        probes = Probes(clock)
        await probe_facts(probes, link)
        clock.now += 1
        probes.expire(await reported(link))
        await probe_facts(probes, link, again=True)
        runs = {tool: mac.times_run(tool) for tool in ("sw_vers", "fdesetup", "ibv_devinfo", "powermetrics")}
        assert runs == {"sw_vers": 2, "fdesetup": 2, "ibv_devinfo": 1, "powermetrics": 1}


async def test_what_was_not_told_is_asked_again_after_a_minute_and_what_root_may_not_do_much_later(
    mac: Mac,
) -> None:
    clock = Clock()
    for tool, case in (
        ("sw_vers", ""),
        ("fdesetup", "fdesetup/off"),
        ("powermetrics", "powermetrics/no_sudo"),
    ):
        mac.set_output(tool, case)
    async with agent_on(mac, Bench.make(), jaccl(mac, True)) as link:
        probes = Probes(clock)
        assert (await probe_facts(probes, link)).version == ()
        mac.set_output("sw_vers", "sw_vers/26_3")
        clock.now += 61
        assert (await probe_facts(probes, link)).version == (26, 3)
        assert (mac.times_run("fdesetup"), mac.times_run("powermetrics")) == (1, 1)
        clock.now += 1800
        await probe_facts(probes, link)
        assert (mac.times_run("fdesetup"), mac.times_run("powermetrics")) == (2, 2)


async def test_without_its_tools_nothing_is_known_of_a_mac_and_every_reason_is(mac: Mac) -> None:
    async with agent_on(mac, Bench.make(), "/nowhere/python") as link:
        mac.loses_all()
        facts = await probe_facts(Probes(time.time), link)
        report = await reported(link)
    assert facts == MachineFacts(boot_id=report.boot_id, system="Darwin")
    assert len(facts.unknown) == len(PROBES)
    assert {reason for _, reason in facts.unknown} >= {"there is no ibv_devinfo on this machine"}


async def test_of_a_machine_that_is_no_mac_no_tool_is_asked(mac: Mac) -> None:
    mac.set_output("uname", "Linux\n")
    async with agent_on(mac, Bench.make()) as link:
        facts = await probe_facts(Probes(time.time), link)
    assert facts == MachineFacts(boot_id=facts.boot_id, system="Linux")
    assert mac.times_run("sw_vers") == 0


class OldAgent:
    """The connection to an agent that has not heard of tools yet, as one answers that does not know a message."""

    def __init__(self) -> None:
        self.requests = 0

    async def request(self, message: object, *, timeout: float) -> object:  # noqa: ASYNC109 - as the real one
        self.requests += 1
        raise Refused("Malformed", "unknown message type 'run_tool'")


async def test_an_agent_that_knows_no_tools_is_asked_once_and_its_report_is_all_that_is_known() -> None:
    old, probes, report = OldAgent(), Probes(time.time), replace(plain_report(1), system="Darwin")
    for _ in range(3):
        facts = await probes(cast(AgentConnection, old), report, True)
        assert facts == MachineFacts(boot_id="boot", system="Darwin")
    assert old.requests == 1
