"""The commands that make launchd use a definition, or let go of it, from every state: real scripts, and the emulated launchd."""

from __future__ import annotations

import plistlib
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.bootstrap.service import definition, service_name
from reconciler.remote.nodes import bootstrap
from reconciler.sandbox.world.launchd import IO_ERROR, NO_SERVICE, Flaw, Job, Service, State, step
from reconciler.sandbox.world.launchd import NEVER as INFINITE
from reconciler.service_managers import launchd
from reconciler.service_managers.definitions import Keeper, definition_path
from reconciler.services import machine
from reconciler.services.up_service import Machine, UpService
from tests.examples import examples

from . import scripts

pytestmark = pytest.mark.processes

NAME = "reconciler.up.DOMAIN\\ada"
PATH = str(definition_path(Keeper.LAUNCHD, PurePosixPath("/u/ada"), NAME))
NEVER = 10_000
IN_PROGRESS = 37
"""Exit status of ``bootstrap`` while launchd still does something with the service."""


@dataclass(frozen=True)
class Found:
    """A launchd before the script runs."""

    state: State
    disabled: bool
    stop: int
    """Seconds from ``bootout`` until the service is gone."""
    allowed: int
    """Seconds until nothing but the state keeps it from being loaded."""
    code: int = IO_ERROR
    """Exit status of ``bootstrap`` until then."""


@dataclass(frozen=True)
class Left:
    """What a script left behind."""

    status: int
    words: str
    state: str
    disabled: bool
    seconds: int


def run(command: tuple[str, ...], found: Found) -> Left:
    """Run a command on a Mac with this launchd, whose time passes while the command sleeps."""
    service, now = Service(NAME, PATH, found.state, found.stop, found.disabled), 0

    def answer(call: list[str]) -> tuple[int, str]:
        nonlocal service, now
        match call:
            case ["sleep", seconds]:
                now += int(seconds)
                return 0, ""
            case ["launchctl", "bootstrap", "system", path] if path == PATH:
                pass
            case ["launchctl", verb, label] if label == f"system/{NAME}" and verb != "bootstrap":
                pass
            case _:
                return 64, f"{call[1]} failed: 64"
        service, status = step(service, call[1], now, found.stop, now >= found.allowed)
        status = found.code if status == IO_ERROR else status
        return status, f"{call[1]} failed: {status}" if status else ""

    status, words = scripts.run(command, answer)
    return Left(status, words, service.at(now).state, service.disabled, now)


FOUND = st.builds(
    Found,
    st.sampled_from(State),
    st.booleans(),
    st.one_of(st.integers(0, 40), st.just(NEVER)),
    st.one_of(st.integers(0, 50), st.just(NEVER)),
    st.sampled_from((IO_ERROR, IN_PROGRESS)),
)


@settings(max_examples=examples(40))
@given(found=FOUND)
@example(found=Found(State.LOADED, True, launchd.GONE_SECONDS, 0))
@example(found=Found(State.LOADED, True, launchd.GONE_SECONDS + 1, 0))
@example(found=Found(State.ABSENT, True, 0, launchd.ATTEMPTS_MAX - 1))
@example(found=Found(State.ABSENT, True, 0, launchd.ATTEMPTS_MAX))
def test_whatever_launchd_does_the_service_runs_in_the_end_or_it_is_said_why_not(found: Found) -> None:
    left = run(launchd.load(("launchctl",), NAME, PATH), found)
    waits = 0 if found.state == State.ABSENT else found.stop
    if waits > launchd.GONE_SECONDS:
        assert f"launchd still has {NAME} after" in left.words
    elif found.allowed > waits + launchd.ATTEMPTS_MAX - 1:
        assert f"launchd does not start {NAME}: bootstrap failed: {found.code}" in left.words
        assert left.words.endswith("Allow in the Background, then type this again.\n")
    else:
        assert (left.words, left.state, left.disabled) == ("", State.LOADED, False)
    assert (left.status == 0) == (left.state == State.LOADED and left.words == "")
    assert left.seconds <= launchd.GONE_SECONDS + launchd.ATTEMPTS_MAX


@settings(max_examples=examples(20))
@given(found=FOUND)
def test_it_is_unloaded_once_it_is_gone_and_stays_disabled_or_not(found: Found) -> None:
    left = run(launchd.unload(("launchctl",), NAME), found)
    assert left.disabled == found.disabled
    assert (left.status == 0) == (left.state in (State.ABSENT, State.STOPPING) and not left.words)


def test_a_status_of_launchctl_that_no_waiting_changes_is_told_at_once() -> None:
    left = run(launchd.load(("launchctl",), NAME, "/another"), Found(State.ABSENT, False, 0, 0))
    assert (left.status, left.seconds) == (1, 0)
    assert "bootstrap failed: 64" in left.words


def test_a_service_that_somebody_else_loads_meanwhile_is_loaded() -> None:
    asked: list[str] = []

    def answer(call: list[str]) -> tuple[int, str]:
        asked.append(call[1])
        if call[1] == "print":
            return (0, "") if "bootstrap" in asked else (NO_SERVICE, "")
        return (IO_ERROR, "Input/output error") if call[1] == "bootstrap" else (0, "")

    assert scripts.run(launchd.load(("launchctl",), NAME, PATH), answer) == (0, "")


@pytest.mark.parametrize(
    ("has_it", "listed", "owned", "loaded"),
    [
        (True, "", True, True),
        (True, f'"{NAME}" => enabled', True, True),
        (True, f'"{NAME}" => disabled', True, False),
        (True, f'"{NAME}" => true', True, False),  # before macOS 13
        (True, f'"{NAME}-2" => disabled', True, True),
        (True, "", False, False),
        (False, "", True, False),
    ],
)
def test_a_service_is_loaded_that_launchd_has_now_and_after_the_next_boot(
    has_it: bool, listed: str, owned: bool, loaded: bool, tmp_path: Path
) -> None:
    file = tmp_path / "definition"
    file.touch()
    shell, option, script, *words = launchd.loaded(NAME, str(file))
    tools = f"""
launchctl() {{
    case $1:$2 in
    print:"system/$NAME") return {0 if has_it else NO_SERVICE};;
    print-disabled:system) printf "disabled services = {{\\n\\t%s\\n}}\\n" "$LISTED";;
    *) return 64;;
    esac
}}
find() {{ printf %s '{file if owned else ""}'; }}
"""
    environment = {"NAME": NAME, "LISTED": listed}
    done = subprocess.run((shell, option, tools + script, *words), env=environment, timeout=60, check=False)
    assert (done.returncode == 0) == loaded


def test_both_scripts_end_before_their_command_is_given_up_and_can_be_pasted() -> None:
    given = min(bootstrap.MEASURE_SECONDS, machine.ACTION_SECONDS)
    assert given > launchd.GONE_SECONDS + launchd.ATTEMPTS_MAX
    for command in (launchd.load((), NAME, PATH), launchd.unload((), NAME)):
        assert "'" not in command[2]


# --- the table itself ---


def test_a_service_stays_for_a_moment_after_bootout_and_cannot_be_loaded_meanwhile() -> None:
    service, _ = step(Service("a", "p"), "bootstrap", 0.0)
    service, code = step(service, "bootout", 1.0, stop_seconds=2.0)
    assert (service.state, code) == (State.STOPPING, 0)
    assert [step(service, "bootstrap", now)[1] for now in (1.0, 2.9, 3.0)] == [IO_ERROR, IO_ERROR, 0]
    assert [step(service, "print", now)[1] for now in (1.0, 2.9, 3.0)] == [0, 0, NO_SERVICE]


def test_a_disabled_service_runs_until_a_restart_and_no_longer() -> None:
    service, _ = step(Service("a", "p", State.LOADED), "disable", 0.0)
    assert (service.state, service.after_boot().state) == (State.LOADED, State.ABSENT)
    assert step(service.after_boot(), "bootstrap", 9.0)[1] == IO_ERROR
    enabled, _ = step(service.after_boot(), "enable", 9.0)
    assert step(enabled, "bootstrap", 9.0) == (Service("a", "p", State.LOADED), 0)


@pytest.mark.parametrize("flaw", [each for each in Flaw if each])
def test_a_definition_with_a_flaw_is_not_loaded_neither_at_boot_nor_by_a_person(flaw: Flaw) -> None:
    service = Service("a", "p", State.LOADED, flaw=flaw)
    assert step(service, "print", 0.0) == (service, 0), "a loaded service does not feel it"
    assert service.after_boot().state == State.ABSENT
    assert step(service.after_boot(), "bootstrap", 9.0)[1] == IO_ERROR


def test_a_process_that_ends_is_started_again_at_most_every_ten_seconds_while_its_script_is_there() -> None:
    job = Job(start_at=100.0).at(100.0)
    assert job.running
    assert [job.ended(now, script=True).start_at for now in (101.0, 109.0, 150.0)] == [110.0, 110.0, 150.0]
    assert job.ended(101.0, script=False).start_at == INFINITE


def test_a_script_that_appears_starts_its_process_if_launchd_notices_or_is_told() -> None:
    waiting = Job(start_at=100.0).at(100.0).ended(101.0, script=False)
    assert not waiting.at(1000.0).running, "nobody has noticed the script"
    assert [waiting.noticed(now).start_at for now in (102.0, 500.0)] == [110.0, 500.0]
    assert waiting.kicked(102.0).at(102.0).running


# --- definitions ---

KEYS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        (
            "Disabled", "EnableGlobbing", "EnableTransactions", "EnablePressuredExit", "RunAtLoad", "InitGroups",
            "StartOnMount", "Debug", "WaitForDebugger", "AbandonProcessGroup", "LowPriorityIO", "LowPriorityBackgroundIO",
            "MaterializeDatalessFiles", "LaunchOnlyOnce", "SessionCreate", "LegacyTimers",
        ),
        lambda value: isinstance(value, bool),
    ),
    **dict.fromkeys(
        (
            "Label", "UserName", "GroupName", "Program", "BundleProgram", "RootDirectory", "WorkingDirectory",
            "StandardInPath", "StandardOutPath", "StandardErrorPath",
        ),
        lambda value: isinstance(value, str),
    ),
    **dict.fromkeys(
        ("ExitTimeOut", "ThrottleInterval", "StartInterval", "Nice", "Umask"),
        lambda value: type(value) is int,
    ),
    **dict.fromkeys(
        ("ProgramArguments", "WatchPaths", "QueueDirectories"),
        lambda value: isinstance(value, list) and value != [] and all(isinstance(each, str) for each in value),
    ),
    "ProcessType": {"Background", "Standard", "Adaptive", "Interactive"}.__contains__,
    "KeepAlive": lambda value: isinstance(value, bool) or all(KEEP_ALIVE[key](each) for key, each in value.items()),
}  # fmt: skip
"""Keys of launchd.plist(5) and what each takes, without those that it calls deprecated or no longer implemented, and without
dictionaries that no definition has."""
KEEP_ALIVE: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("SuccessfulExit", "Crashed", "AfterInitialDemand"), lambda value: isinstance(value, bool)
    ),
    **dict.fromkeys(
        ("PathState", "OtherJobEnabled"),
        lambda value: all(isinstance(name, str) and isinstance(each, bool) for name, each in value.items()),
    ),
}


@pytest.mark.parametrize("user", ["ada", "ada lovelace", "DOMAIN\\ada", "<ädä> & co"])
@pytest.mark.parametrize("of", ["agent", "up"])
def test_a_definition_is_a_property_list_whose_keys_have_the_types_that_launchd_takes(
    of: str, user: str
) -> None:
    home = PurePosixPath("/Users", user)
    found = Profile(home, "Darwin", "arm64", user, 501, "studio-1.local", "/usr/bin/python3")
    up = UpService(Path(home, ".reconciler"), Machine(user, 501, home, Keeper.LAUNCHD))
    text = definition(Keeper.LAUNCHD, found, "far") if of == "agent" else up.definition_text()
    path = up.definition if of == "up" else definition_path(Keeper.LAUNCHD, home, service_name(user, "far"))
    written = plistlib.loads(text.encode(), fmt=plistlib.FMT_XML)
    assert [key for key, value in written.items() if not KEYS[key](value)] == []
    assert (path.name, written["UserName"]) == (f"{written['Label']}.plist", user)
    (script,) = written["KeepAlive"]["PathState"]
    assert written["ProgramArguments"] == ["/bin/sh", script]
    assert PurePosixPath(script).is_relative_to(home)
