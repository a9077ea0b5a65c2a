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
from tests.examples import examples

from .mac import HOME, LeftError, LockedError, Mac

pytestmark = pytest.mark.processes

SEEDS = range(1, examples(100) + 1)
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
        for by_person in (False, True):
            for each in kept.plan():
                if each.by_person is by_person and (words := kept.mac.carry_out(each)):
                    return words
        kept.mac.wait(SETTLE_SECONDS)
        if not kept.plan():
            return ""
        kept.control()
    return f"still to do: {[each.why for each in kept.plan()]}"


Meddling = Callable[[Kept, random.Random], None]
MEDDLING: Mapping[str, Meddling] = {
    "it crashes": lambda kept, rng: kept.mac.crash(),
    "the script is removed": lambda kept, rng: kept.mac.remove(str(kept.mac.script_path)),
    "the script is back": lambda kept, rng: kept.mac.put(str(kept.mac.script_path), kept.wanted),
    "the script will be back unnoticed": lambda kept, rng: setattr(kept.mac, "deaf", True),
    "the next load starts nothing": lambda kept, rng: setattr(kept.mac, "idle", True),
    "disable": lambda kept, rng: setattr(kept.mac, "_", kept.mac.launchctl("disable")),
    "enable": lambda kept, rng: setattr(kept.mac, "_", kept.mac.launchctl("enable")),
    "bootout": lambda kept, rng: setattr(kept.mac, "_", kept.mac.launchctl("bootout")),
    "switched off": lambda kept, rng: kept.mac.switch(False, rng.random() < 0.5),
    "switched on": lambda kept, rng: kept.mac.switch(True, rng.random() < 0.5),
    "another owner": lambda kept, rng: spoil(kept.mac, Flaw.OWNER),
    "another mode": lambda kept, rng: spoil(kept.mac, Flaw.MODE),
    "unreadable": lambda kept, rng: setattr(kept.mac, "readable", False),
    "no property list": lambda kept, rng: kept.mac.define("<plist>", Flaw.SYNTAX),
    "the definition is removed": lambda kept, rng: kept.mac.define(None),
    "time passes": lambda kept, rng: kept.mac.wait(rng.choice((1, 5, 12, 60))),
}
"""All that may come between two commands."""


def spoil(mac: Mac, flaw: Flaw) -> None:
    if mac.definition is not None:
        mac.define(mac.definition, flaw)


def restarted(kept: Kept, rng: random.Random) -> None:
    kept.mac.filevault = rng.random() < 0.4
    kept.mac.reboot()


def earlier(kept: Kept, rng: random.Random) -> None:
    """An earlier version has installed another definition."""
    kept.mac.define(EARLIER)
    kept.mac.launchctl("bootout")
    kept.mac.wait(5)
    kept.mac.launchctl("bootstrap")


def live(kept: Kept, rng: random.Random, told: list[str]) -> None:
    """Draw a life of the Mac, and keep what happens in ``told``."""

    def meddle() -> None:
        if rng.random() < 0.02:
            told.append("  left")
            raise LeftError
        if rng.random() < 0.02:
            told.append("  restart")
            restarted(kept, rng)
            raise LeftError
        if rng.random() < 0.1:
            name = rng.choice(tuple(MEDDLING))
            told.append(f"  {name}")
            MEDDLING[name](kept, rng)

    commands: Mapping[str, Callable[[], object]] = {
        "type": lambda: type_command(kept),
        "upgrade": kept.upgrade,
        "control": kept.control,
        "restart": lambda: restarted(kept, rng),
        "unlock": kept.mac.unlock,
        "earlier": lambda: earlier(kept, rng),
        **{name: lambda name=name: MEDDLING[name](kept, rng) for name in MEDDLING},  # type: ignore[misc]
    }
    names = (*commands, *("type",) * 6, *("control",) * 3)
    kept.mac.umask = rng.choice((0o022, 0o077))
    kept.mac.meddle = meddle
    for _ in range(rng.randint(2, 10)):
        name = rng.choice(names)
        if kept.mac.locked == (name == "unlock"):
            told.append(name)
            with suppress(LeftError, LockedError):
                commands[name]()
    kept.mac.meddle = lambda: None


def put_right(kept: Kept, rng: random.Random) -> str:
    """Type the command, and do what it says; what is still said then."""
    words = type_command(kept)
    if words and not kept.mac.allowed:
        assert "allow it again under System Settings > General > Login Items & Extensions" in words
        assert words.rstrip().endswith("then type this again.")
        kept.mac.switch(True, at_once=rng.random() < 0.5)
        words = type_command(kept)
    return words


@pytest.mark.parametrize("made", [Agent, Up])
@pytest.mark.parametrize("seed", SEEDS)
def test_in_the_end_launchd_runs_it_or_what_helps_is_said(seed: int, made: type[Agent] | type[Up]) -> None:
    rng = random.Random(seed)
    kept, told = made(sudo=rng.random() < 0.6), [str(seed)]
    mac = kept.mac
    live(kept, rng, told)
    story = "\n".join(told)
    for _ in ("now", "after a restart"):
        if mac.locked:
            mac.unlock()  # as the finding of a locked disk says
        kept.control()
        if mac.process and mac.process.held_by == HeldBy.PROCESS:
            mac.crash()  # a person ends the `up` that they have typed
        assert put_right(kept, rng) == "", story
        mac.wait(SETTLE_SECONDS)
        assert mac.process is not None, story
        assert (mac.process.held_by, mac.process.runs) == (HeldBy.LAUNCHD, kept.wanted), story
        assert (mac.loaded, list(kept.plan())) == (kept.definition, []), story
        mac.idle = False
        mac.reboot()
    if mac.locked:
        mac.unlock()
    mac.wait(SETTLE_SECONDS)
    assert mac.process is not None, "it is in place, and the next boot starts it"
