"""Whatever happens to a Mac, in the end launchd runs what it should, or the reason is told with a remedy that works.

Each seed draws a life: a service is installed, also in part, and upgraded, while people, crashes and restarts come between
any two commands. Plans and scripts are the product's, launchd is that of the emulated Macs, and time is a number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Protocol

import pytest

from reconciler.remote.bootstrap import actions, service
from reconciler.remote.bootstrap.actions import Action, Place, Write
from reconciler.remote.bootstrap.profile import Profile
from reconciler.sandbox.world.launchd import Flaw
from reconciler.service_managers.definitions import Keeper
from reconciler.services.up_service import Machine, UpService
from reconciler.wire.node import HeldBy

from .mac import HOME, LeftError, LockedError, Mac

pytestmark = pytest.mark.processes

SEEDS = range(1, 101)
PROFILE = Profile(HOME, "Darwin", "arm64", "ada", 501, "studio-1.local", "/usr/bin/python3")
NODE = "far"
AGENT = Write(HOME / ".reconciler" / "agents" / "agent.pyz", b"agent")
EARLIER = "<plist>of an earlier version</plist>"
SETTLE_SECONDS, SERVICE_SECONDS = 25.0, 15.0
ROUNDS = 3


class Kept(Protocol):
    """What a service keeps running, and the command that makes it."""

    mac: Mac

    @property
    def wanted(self) -> str:
        """Return the content of its script."""

    @property
    def definition(self) -> str: ...

    def plan(self) -> Sequence[Action]: ...

    def control(self) -> None:
        """Do what happens without a person."""

    def upgrade(self) -> None: ...


class Agent:
    """The agent of a node, with its controller; the command is `reconciler node bootstrap`."""

    def __init__(self, sudo: bool) -> None:
        self._version = 1
        self.mac = Mac(service.service_name("ada", NODE), service.script_path(PROFILE, NODE), sudo)
        self.definition = service.definition(Keeper.LAUNCHD, PROFILE, NODE)

    @property
    def _serve(self) -> tuple[str, ...]:
        return ("/usr/bin/python3", "-I", f"agent-{self._version}.pyz", "serve")

    @property
    def wanted(self) -> str:
        return service.script(Keeper.LAUNCHD, PROFILE, NODE, self._serve)

    def plan(self) -> Sequence[Action]:
        place = Place(NODE, PROFILE, None, self._serve, AGENT, True, AGENT, True)
        return actions.actions(self.mac.survey(), place)

    def upgrade(self) -> None:
        self._version += 1
        self.control()

    def control(self) -> None:
        """Start or replace the agent as ``SshNode.start_agent`` does, unless the newest one runs."""
        mac, seen = self.mac, self.mac.survey()
        if mac.process is not None and mac.process.runs == self.wanted:
            return
        if seen.loaded and seen.script != self.wanted:
            mac.put(str(mac.script_path), self.wanted)
        mac.crash()  # the controller asks it to end
        if seen.loaded:
            begin = actions.start(PROFILE, seen, NODE)
            if not begin.by_person:
                mac.carry_out(begin)
            mac.wait(SERVICE_SECONDS)
        if mac.process is None:
            mac.begin(HeldBy.SESSION, self.wanted)


class Up:
    """`reconciler up` of a home; the command is `reconciler install`."""

    def __init__(self, sudo: bool) -> None:
        machine = Machine("ada", 501, HOME, Keeper.LAUNCHD, "sudo" if sudo else "")
        self._service = UpService(Path(HOME / ".reconciler"), machine)
        self.mac = Mac(self._service.name, PurePosixPath(self._service.script), sudo)
        self.wanted = self._service.script_text()
        self.definition = self._service.definition_text()

    def plan(self) -> Sequence[Action]:
        seen = self.mac.survey()
        return self._service.install_actions(
            seen.script, seen.definition, seen.agent, seen.loaded and seen.at_boot
        )

    def upgrade(self) -> None:
        self.mac.crash()

    def control(self) -> None:
        if self.mac.process is None and self.mac.now % 3 == 0:
            self.mac.begin(HeldBy.PROCESS, "typed in a terminal")


def type_command(kept: Kept) -> str:
    """Type the command, and paste what it prints for a person; what is said if something fails."""
    for _ in range(ROUNDS):
        for each in sorted(kept.plan(), key=lambda action: action.by_person):
            if words := kept.mac.carry_out(each):
                return words
        kept.mac.wait(SETTLE_SECONDS)
        if not kept.plan():
            return ""
        kept.control()
    return f"still to do: {[each.why for each in kept.plan()]}"


Event = Callable[[Kept, random.Random], object]
MEDDLING: Mapping[str, Event] = {
    "it crashes": lambda kept, rng: kept.mac.crash(),
    "the script is removed": lambda kept, rng: kept.mac.remove(str(kept.mac.script_path)),
    "the script is back": lambda kept, rng: kept.mac.put(str(kept.mac.script_path), kept.wanted),
    "the script will be back unnoticed": lambda kept, rng: kept.mac.miss_script(),
    "the next load starts nothing": lambda kept, rng: kept.mac.start_nothing(),
    "disable": lambda kept, rng: kept.mac.launchctl("disable"),
    "enable": lambda kept, rng: kept.mac.launchctl("enable"),
    "bootout": lambda kept, rng: kept.mac.launchctl("bootout"),
    "switched off": lambda kept, rng: kept.mac.switch(False, rng.random() < 0.5),
    "switched on": lambda kept, rng: kept.mac.switch(True, rng.random() < 0.5),
    "another owner": lambda kept, rng: kept.mac.spoil(Flaw.OWNER),
    "another mode": lambda kept, rng: kept.mac.spoil(Flaw.MODE),
    "unreadable": lambda kept, rng: kept.mac.hide(),
    "no property list": lambda kept, rng: kept.mac.define("<plist>", Flaw.SYNTAX),
    "the definition is removed": lambda kept, rng: kept.mac.define(None),
    "time passes": lambda kept, rng: kept.mac.wait(rng.choice((1, 5, 12, 60))),
}
"""All that may come between two commands, and within one."""
EVENTS: Mapping[str, Event] = {
    **MEDDLING,
    "type": lambda kept, rng: type_command(kept),
    "upgrade": lambda kept, rng: kept.upgrade(),
    "control": lambda kept, rng: kept.control(),
    "restart": lambda kept, rng: restart(kept.mac, rng.random() < 0.4),
    "unlock": lambda kept, rng: kept.mac.unlock(),
    "an earlier version": lambda kept, rng: with_earlier_definition(kept.mac),
}
OFTEN = (*EVENTS, *("type",) * 6, *("control",) * 3, *("an earlier version",) * 2)


def restart(mac: Mac, filevault: bool) -> None:
    mac.filevault = filevault
    mac.reboot()


def with_earlier_definition(mac: Mac) -> None:
    mac.define(EARLIER)
    mac.launchctl("bootout")
    mac.wait(5)
    mac.launchctl("bootstrap")


def live(kept: Kept, rng: random.Random) -> str:
    """Draw a life of the Mac, and tell it."""
    told: list[str] = []

    def meddle() -> None:
        drawn = rng.random()
        if drawn < 0.06:
            told.append("  left" if drawn < 0.04 else "  restart")
            if drawn >= 0.04:
                EVENTS["restart"](kept, rng)
            raise LeftError
        if drawn < 0.16:
            told.append(f"  {(name := rng.choice(tuple(MEDDLING)))}")
            MEDDLING[name](kept, rng)

    kept.mac.umask = rng.choice((0o022, 0o077))
    kept.mac.meddle = meddle
    for _ in range(rng.randint(2, 10)):
        name = rng.choice(OFTEN)
        if kept.mac.locked == (name == "unlock"):
            told.append(name)
            with suppress(LeftError, LockedError):
                EVENTS[name](kept, rng)
    kept.mac.meddle = lambda: None
    return "\n".join(told)


def put_right(kept: Kept, rng: random.Random) -> str:
    """Do what the findings say; what is still said then."""
    mac = kept.mac
    if mac.locked:
        mac.unlock()
    kept.control()
    if mac.process and mac.process.held_by == HeldBy.PROCESS:
        mac.crash()  # a person ends the `up` that they have typed
    words = type_command(kept)
    if words and not mac.allowed:
        assert "allow it again under System Settings > General > Login Items & Extensions" in words
        assert words.rstrip().endswith("then type this again.")
        mac.switch(True, at_once=rng.random() < 0.5)
        words = type_command(kept)
    mac.wait(SETTLE_SECONDS)
    return words


def check_in_the_end(kept: Kept, rng: random.Random) -> None:
    """Check that the findings lead to a service that runs now, and after each boot if a person allows it."""
    mac = kept.mac
    for _ in ("now", "after a restart"):
        assert put_right(kept, rng) == ""
        assert mac.process is not None
        assert (mac.process.held_by, mac.process.runs) == (HeldBy.LAUNCHD, kept.wanted)
        assert (mac.loaded, list(kept.plan())) == (kept.definition, [])
        restart(mac, rng.random() < 0.4)
        if mac.locked:
            assert mac.process is None
            mac.unlock()
        mac.wait(SETTLE_SECONDS)
        assert not mac.allowed or (mac.process and mac.process.held_by == HeldBy.LAUNCHD)
    assert mac.allowed


MADE = pytest.mark.parametrize("made", [Agent, Up])
SUDO = pytest.mark.parametrize("sudo", [True, False], ids=["sudo", "pasted"])


@pytest.mark.parametrize("seed", SEEDS)
def test_in_the_end_launchd_runs_it_or_what_helps_is_said(seed: int) -> None:
    rng = random.Random(seed)
    kept: Kept = rng.choice((Agent, Agent, Up))(rng.random() < 0.6)
    told = live(kept, rng)
    try:
        check_in_the_end(kept, rng)
    except AssertionError as error:
        error.add_note(told)
        raise


@MADE
@SUDO
@pytest.mark.parametrize(
    "story",
    [
        ["type", "disable", "restart", "unlock"],
        ["type", "disable"],
        ["type", "switched off", "restart", "unlock"],
        ["type", "another owner", "restart", "unlock"],
        ["type", "another mode"],
        ["unreadable", "type"],
        ["type", "the script is removed", "it crashes", "the script will be back unnoticed", "control"],
        ["the next load starts nothing", "type", "control"],
        ["an earlier version", "type"],
        ["type", "bootout", "type"],
        ["type", "restart", "upgrade"],
    ],
    ids=", ".join,
)
def test_what_each_of_these_does_is_put_right(
    story: list[str], sudo: bool, made: Callable[[bool], Kept]
) -> None:
    kept, rng = made(sudo), random.Random(1)
    for name in story:
        if kept.mac.locked == (name == "unlock"):
            EVENTS[name](kept, rng)
    check_in_the_end(kept, rng)


@MADE
@SUDO
@pytest.mark.parametrize("before", ["time passes", "an earlier version"])
@pytest.mark.parametrize("then", ["time passes", "restart"])
def test_the_command_may_end_at_each_step_and_goes_on_when_it_is_typed_again(
    before: str, then: str, sudo: bool, made: Callable[[bool], Kept]
) -> None:
    for steps in range(60):
        kept, rng, left = made(sudo), random.Random(steps), steps
        EVENTS[before](kept, rng)

        def end_after_steps() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise LeftError

        kept.mac.meddle = end_after_steps
        try:
            type_command(kept)
        except LeftError:
            kept.mac.meddle = lambda: None
            EVENTS[then](kept, rng)
            check_in_the_end(kept, rng)
        else:
            break
    assert 3 < steps < 59
