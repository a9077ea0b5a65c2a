"""A machine that is repaired: tools that keep what they were told, and an agent that is killed in the middle of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from reconciler.agent.system.machine import boot_id
from reconciler.errors import Refused
from reconciler.remote.agent_connection import AgentConnection
from reconciler.wire.node import Done
from reconciler.wire.repair import Change, ConfirmRepair, Repair, RepairReport, RepairState, permitted
from tests.agent.bench import WAIT_SECONDS, Bench, ask, gone, observe, until
from tests.agent.settable import FORBIDDEN, Place

OUT = Change(("ifconfig", "bridge0", "deletem", "en3"), ("ifconfig", "bridge0", "addm", "en3"))
ADDRESS = Change(
    ("ifconfig", "en3", "inet", "10.77.0.1", "netmask", "255.255.255.252"),
    ("ifconfig", "en3", "inet", "10.77.0.1", "delete"),
)
AWAKE = Change(
    ("pmset", "-a", "sleep", "0", "disksleep", "0"),
    ("pmset", "-a", "sleep", "1", "disksleep", "10"),
    lasting=True,
)
NETWORK = (OUT, ADDRESS)
WEIGHTS = (
    Change(("touch", "{models}/.metadata_never_index"), ("unlink", "{models}/.metadata_never_index")),
    Change(("tmutil", "addexclusion", "{models}"), ("tmutil", "removeexclusion", "{models}")),
)


@pytest.fixture
async def place(bench: Bench) -> AsyncIterator[Place]:
    made = Place(bench)
    yield made
    for pid in made.watchdogs():
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGKILL)


BEFORE: tuple[list[str], dict[str, str]] = (["en3"], {})
AFTER: tuple[list[str], dict[str, str]] = ([], {"en3": "10.77.0.1"})


def repair(*changes: Change, id: str = "r1", token: int = 1, seconds: float = 60.0) -> Repair:
    return Repair(token, id, boot_id(), changes, seconds)


async def report(link: AgentConnection) -> RepairReport:
    found = (await observe(link)).repair
    assert found is not None
    return found


async def begin(link: AgentConnection, request: Repair) -> None:
    """Have a repair made that nobody is going to confirm: on a busy machine it is undone before the answer comes."""
    with contextlib.suppress(Refused):
        await ask(link, request)


async def over(link: AgentConnection) -> RepairReport:
    """The repair, once it is over."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            found = await report(link)
            if found.state in RepairState.OVER:
                return found
            await asyncio.sleep(0.05)


async def test_what_needs_no_root_is_changed_and_undone_in_the_folder_of_weights_without_sudo(
    place: Place,
) -> None:
    place.script("sudo", FORBIDDEN)
    place.bench.models.mkdir(exist_ok=True)
    mark = place.bench.models / ".metadata_never_index"
    link = await place.agent()
    assert isinstance(await ask(link, repair(*WEIGHTS)), Done)
    assert mark.exists()
    link = await place.bench.controller()
    assert isinstance(await ask(link, ConfirmRepair(1, "r1")), Done)
    assert mark.exists()
    mark.unlink()
    await begin(link, repair(*WEIGHTS, id="r2", seconds=0.2))
    assert (await over(link)).state == RepairState.UNDONE
    assert not mark.exists()
    told = (place.folder / "exclusions").read_text().splitlines()
    assert told == [f"{verb} {place.bench.models}" for verb in ("addexclusion",) * 2 + ("removeexclusion",)]


async def test_what_is_confirmed_over_a_new_connection_stays(place: Place) -> None:
    link = await place.agent()
    assert (await observe(link)).repair is None
    assert isinstance(await ask(link, repair(*NETWORK)), Done)
    assert place.settings == AFTER
    assert (await report(link)).state == RepairState.WAITING

    with pytest.raises(Refused) as refused:
        await ask(link, ConfirmRepair(1, "r1"))
    assert refused.value.code == "SameConnection"

    again = await place.bench.controller()
    assert isinstance(await ask(again, ConfirmRepair(1, "r1")), Done)
    found = await over(again)
    assert (found.state, found.changes, found.tried) == (RepairState.CONFIRMED, NETWORK, ("r1",))
    assert place.settings == AFTER
    assert isinstance(await ask(again, ConfirmRepair(1, "r1")), Done)


async def test_what_nobody_confirms_is_undone_by_the_machine_itself(place: Place) -> None:
    link = await place.agent()
    await begin(link, repair(*NETWORK, AWAKE, seconds=0.5))
    found = await over(link)
    assert (found.state, found.tried) == (RepairState.UNDONE, ("r1",))
    assert "it was not confirmed" in found.problem
    assert place.settings == BEFORE
    assert (place.folder / "sleep").read_text() == "1 10\n"
    with pytest.raises(Refused) as refused:
        await ask(await place.bench.controller(), ConfirmRepair(1, "r1"))
    assert refused.value.code == "NotWaiting"


async def test_it_is_undone_although_the_agent_was_killed_and_nobody_comes_back(place: Place) -> None:
    link = await place.agent()
    await begin(link, repair(*NETWORK, seconds=1.0))
    await place.bench.kill_agent()
    await until(lambda: place.settings == BEFORE)
    assert len(place.commands_run) == 4, "both were made, and both undone"


async def test_a_repair_whose_process_is_killed_as_well_is_undone_by_the_next_agent(place: Place) -> None:
    (place.folder / "hang-inet").touch()
    link = await place.agent()
    requested = asyncio.create_task(ask(link, repair(*NETWORK)))
    await until(lambda: (place.folder / "hangs").exists())
    assert place.settings == ([], {})
    (watchdog,) = place.watchdogs()
    agent = place.bench.agent_pid()
    os.kill(agent, signal.SIGKILL)
    os.kill(watchdog, signal.SIGKILL)
    await asyncio.gather(requested, return_exceptions=True)
    for pid in (agent, watchdog):
        await gone(pid)
    await place.bench.agent_let_go()
    (place.folder / "hang-inet").unlink()

    found = await over(await place.agent())
    assert (found.state, found.problem) == (RepairState.UNDONE, "it was interrupted")
    assert place.settings == BEFORE


async def test_a_command_that_fails_undoes_what_was_done_before_it(place: Place) -> None:
    link = await place.agent()
    away = replace(OUT, argv=("ifconfig", "bridge0", "deletem", "en9"))
    with pytest.raises(Refused) as refused:
        await ask(link, repair(ADDRESS, OUT, away))
    assert refused.value.code == "Failed"
    assert "ifconfig bridge0 deletem en9" in str(refused.value)
    assert place.settings == BEFORE
    assert (await report(link)).state == RepairState.UNDONE


async def test_where_sudo_asks_for_a_password_nothing_is_done_and_that_is_said(place: Place) -> None:
    place.script("sudo", FORBIDDEN)
    link = await place.agent()
    with pytest.raises(Refused, match="a password is required"):
        await ask(link, repair(*NETWORK))
    found = await report(link)
    assert (found.state, found.tried, found.barred) == (RepairState.UNDONE, (), ("r1",))
    assert place.commands_run == []


@pytest.mark.parametrize(
    "denied", [ADDRESS.argv, ADDRESS.undo, OUT.undo], ids=["the last", "its undoing", "another"]
)
async def test_nothing_is_changed_where_sudo_would_refuse_a_later_command_or_the_undoing(
    place: Place, denied: tuple[str, ...]
) -> None:
    (place.folder / "denied").write_text(" ".join(denied) + "\n")
    link = await place.agent()
    with pytest.raises(Refused, match="sudo does not allow it"):
        await ask(link, repair(*NETWORK))
    found = await report(link)
    assert (found.state, found.tried, found.barred) == (RepairState.UNDONE, (), ("r1",))
    assert " ".join(denied) in found.problem
    assert place.commands_run == []
    assert place.settings == BEFORE


async def test_what_cannot_be_undone_is_left_and_reported_with_the_command(place: Place) -> None:
    (place.folder / "refuse-delete").touch()
    link = await place.agent()
    await begin(link, repair(*NETWORK, seconds=0.5))
    found = await over(link)
    assert found.state == RepairState.LEFT
    assert "to do: ifconfig en3 inet 10.77.0.1 delete" in found.problem
    assert place.settings == (["en3"], {"en3": "10.77.0.1"})


async def test_a_second_repair_is_refused_while_one_is_not_confirmed(place: Place) -> None:
    link = await place.agent()
    await ask(link, repair(*NETWORK))
    with pytest.raises(Refused) as refused:
        await ask(link, repair(AWAKE, id="r2"))
    assert refused.value.code == "Unconfirmed"
    commands_before = len(place.commands_run)
    assert isinstance(await ask(link, repair(*NETWORK)), Done)
    assert len(place.commands_run) == commands_before
    again = await place.bench.controller()
    await ask(again, ConfirmRepair(1, "r1"))
    assert isinstance(await ask(again, repair(AWAKE, id="r2")), Done), "what was confirmed is over"


async def test_a_controller_that_was_replaced_neither_repairs_nor_confirms(place: Place) -> None:
    link = await place.agent()
    await ask(link, repair(*NETWORK, token=2))
    again = await place.bench.controller()
    for request in (repair(AWAKE, id="r2", token=1), ConfirmRepair(1, "r1")):
        with pytest.raises(Refused) as refused:
            await ask(again, request)
        assert refused.value.code == "Fenced"
    assert (await report(again)).state == RepairState.WAITING


async def test_nothing_but_what_repairs_a_machine_is_run(place: Place) -> None:
    link = await place.agent()
    for argv in (
        ("rm", "-rf", "/"),
        ("ifconfig", "bridge0", "destroy"),
        ("ifconfig", "en3", "inet", "; reboot"),
    ):
        for change in (replace(OUT, argv=argv), replace(OUT, undo=argv)):
            with pytest.raises(Refused) as refused:
                await ask(link, repair(change))
            assert refused.value.code == "Invalid"
    with pytest.raises(Refused, match="another boot"):
        await ask(link, replace(repair(*NETWORK), boot_id="the one before"))
    assert (place.commands_run, place.settings) == ([], BEFORE)


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ("ifconfig bridge0 deletem en3", True),
        ("ifconfig bridge0 deletem en3 deletem en4", False),
        ("ifconfig bridge0 deletem bridge1", False),
        ("/sbin/ifconfig bridge0 deletem en3", False),
        ("ifconfig en3 inet 10.77.0.1 netmask 255.255.255.252", True),
        ("ifconfig en3 inet 10.77.0.1 netmask 0.0.0.0", False),
        ("ifconfig lo0 inet 127.0.0.1 delete", False),
        ("sysctl iogpu.wired_limit_mb=440000", True),
        ("sysctl iogpu.wired_limit_mb=-1", False),
        ("sysctl kern.hostname=x", False),
        ("pmset -a sleep 0 disksleep 0", True),
        ("pmset -a sleep 0", False),
        ("", False),
    ],
)  # fmt: skip
def test_only_exact_commands_are_permitted(words: str, allowed: bool) -> None:
    assert permitted(tuple(words.split())) is allowed


def test_a_space_within_a_word_makes_no_other_command() -> None:
    assert not permitted(("ifconfig", "bridge0 deletem", "en3"))
