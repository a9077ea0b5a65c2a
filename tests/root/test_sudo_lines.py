"""Every sudoers line that the product prints, attacked by the user whom it is for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.hardening import sudoers
from reconciler.planning.nodes.root_commands import LINK_LOCAL_WORD, RootCommand, RootCommands
from reconciler.remote.bootstrap import rights
from reconciler.wire.repair import POWER, RESTART
from tests.hardening.rights import every_command

from .sudo import UID, USER, SudoMachine

pytestmark = pytest.mark.needs("sudo")


@pytest.fixture(scope="module")
def machine() -> Iterator[SudoMachine]:
    with tempfile.TemporaryDirectory(prefix="su-") as folder:
        yield SudoMachine(Path(folder), sudoers.lines(USER, every_command()))


def own_address() -> str:
    (found,) = [each.argv[3] for each in every_command() if each.argv[-1] == "255.255.255.252"]
    return found


def test_visudo_takes_the_lines(machine: SudoMachine) -> None:
    assert machine.checked() == ""


@pytest.mark.parametrize("command", every_command(), ids=lambda each: " ".join(each.argv))
def test_what_the_product_needs_runs_as_root(machine: SudoMachine, command: RootCommand) -> None:
    argv = [word if word != LINK_LOCAL_WORD else "169.254.31.200" for word in command.argv]
    assert machine.runs(*argv) == ["|".join(("0", *argv))]


UPDATES = (
    "defaults", "write", "/Library/Preferences/com.apple.SoftwareUpdate", "AutomaticallyInstallMacOSUpdates", "-bool",
)  # fmt: skip
ATTACKS = {
    # powermetrics: may write any file as root where its options are free
    "power writes a file": ("powermetrics", "-o", "/etc/sudoers.d/evil", "-n", "1"),
    "power without options": ("powermetrics",),
    "power with another option": (*POWER, "-o", "/etc/passwd"),
    "power with the option first": ("powermetrics", "-o", "/etc/passwd", *POWER[1:]),
    "power with another sampler": ("powermetrics", "--samplers", "tasks", "-n", "1", "-i", "1000"),
    "power with part of its samplers": ("powermetrics", "--samplers", "gpu_power", "-n", "1", "-i", "1000"),
    "power for ever": ("powermetrics", "--samplers", "gpu_power,cpu_power,thermal", "-i", "1000"),
    "power once more": (*POWER, *POWER[1:]),
    "power with an empty word": (*POWER, ""),
    # ifconfig: another interface, another address, another verb
    "another member of the bridge": ("ifconfig", "bridge0", "deletem", "en0"),
    "two members of the bridge": ("ifconfig", "bridge0", "deletem", "en3", "deletem", "en0"),
    "another bridge": ("ifconfig", "bridge1", "deletem", "en3"),
    "no bridge at all": ("ifconfig", "bridge0", "destroy"),
    "an interface that begins so": ("ifconfig", "bridge0", "deletem", "en30"),
    "an interface that ends so": ("ifconfig", "bridge0", "deletem", "en3", ""),
    "an address on the network of people": ("ifconfig", "en0", "inet", "OWN", "netmask", "255.255.255.252"),
    "the router's address": ("ifconfig", "en3", "inet", "192.168.1.1", "netmask", "255.255.255.252"),
    "another address of the pool": ("ifconfig", "en3", "inet", "10.77.0.1", "netmask", "255.255.255.252"),
    "all networks by the mask": ("ifconfig", "en3", "inet", "OWN", "netmask", "0.0.0.0"),
    "the address of people's network removed": ("ifconfig", "en0", "inet", "192.168.1.7", "delete"),
    "a name for an address": ("ifconfig", "en3", "inet", "169.254.example.org", "delete"),
    "a number beyond an octet": ("ifconfig", "en3", "inet", "169.254.999.1", "delete"),
    "an address and more": ("ifconfig", "en3", "inet", "169.254.1.1", "delete", "ether", "00:00:00:00:00:01"),
    "a link-local address with another mask": ("ifconfig", "en3", "inet", "169.254.1.1", "netmask", "0.0.0.0"),
    "a link-local address elsewhere": ("ifconfig", "en0", "inet", "169.254.1.1", "netmask", "255.255.0.0"),
    "a line below": ("ifconfig", "en3", "inet", "169.254.1.1\n", "delete"),
    "a second line": ("ifconfig", "en3", "inet", "169.254.1.1", "delete\nup"),
    "a wildcard": ("ifconfig", "en3", "inet", "169.254.*.*", "delete"),
    "the expression itself": ("ifconfig", "^en3 inet .* delete$"),
    "an interface down": ("ifconfig", "en3", "down"),
    "no argument": ("ifconfig",),
    # sysctl and pmset
    "another setting": ("sysctl", "kern.hostname=evil"),
    "a second setting": ("sysctl", "iogpu.wired_limit_mb=450560", "kern.hostname=evil"),
    "another value": ("sysctl", "iogpu.wired_limit_mb=999999"),
    "a setting by option": ("sysctl", "-w", "iogpu.wired_limit_mb=450560"),
    "settings from a file": ("sysctl", "-f", "/tmp/evil"),
    "another letter for the dot": ("sysctl", "iogpuxwired_limit_mb=40960"),
    "a sleep": ("pmset", "-a", "sleep", "1", "disksleep", "0"),
    "a sleep at once": ("pmset", "sleepnow"),
    "a restart planned": ("pmset", "schedule", "shutdown", "01/01/27 00:00:00"),
    # defaults
    "another preference": ("defaults", "write", "/Library/Preferences/com.apple.loginwindow", "LoginHook", "/tmp/evil"),
    "another key": ("defaults", "write", "/Library/Preferences/com.apple.SoftwareUpdate", "CatalogURL", "http://evil"),
    "another value of the key": (*UPDATES, "maybe"),
    "a further word": (*UPDATES, "false", "evil"),
    "dots in the preference": (
        "defaults", "write", "/Library/Preferences/../../tmp/com.apple.SoftwareUpdate", *UPDATES[3:], "false",
    ),
    "all preferences": ("defaults", "delete", "/Library/Preferences/com.apple.SoftwareUpdate"),
    # shutdown
    "a halt": ("shutdown", "-h", "now"),
    "a restart later": ("shutdown", "-r", "+1"),
    "a restart and a word": (*RESTART, "evil"),
    # everything else
    "a shell": ("sh", "-c", "id > /tmp/evil"),
    "a shell of sudo": ("-s",),
    "a login of sudo": ("-i",),
    "a file to edit": ("-e", "/etc/sudoers"),
    "another user": ("-u", "mallory", *POWER),
    "another group": ("-g", "mallory", *POWER),
    "a folder to start in": ("-D", "/etc", *POWER),
    "a root folder": ("-R", "/tmp", *POWER),
    "a variable": ("EVIL=1", *POWER),
    "the whole environment": ("-E", *POWER),
    "a library": ("LD_PRELOAD=/tmp/evil.so", *POWER),
    "a path with dots": ("/usr/bin/../bin/powermetrics", "-o", "/etc/passwd"),
    "the tool of another folder": ("/tmp/powermetrics", *POWER[1:]),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_else_runs_as_root(machine: SudoMachine, name: str) -> None:
    words = [word if word != "OWN" else own_address() for word in ATTACKS[name]]
    assert machine.runs(*words, EVIL="1") == []


def test_a_search_path_of_the_user_is_not_asked(
    machine: SudoMachine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with tempfile.TemporaryDirectory(prefix="evil-") as folder:
        evil = Path(folder) / "powermetrics"
        Path(folder).chmod(0o755)
        evil.write_text(f"#!/bin/sh\necho evil >> {machine.log}\n")
        evil.chmod(0o755)
        assert "evil" not in machine.runs(*POWER, PATH=f"{folder}:/usr/bin")


def test_a_link_to_a_tool_is_that_tool_and_takes_no_other_words(machine: SudoMachine) -> None:
    with tempfile.TemporaryDirectory(prefix="link-") as folder:
        Path(folder).chmod(0o755)
        link = Path(folder) / "powermetrics"
        link.symlink_to("/usr/bin/powermetrics")
        assert machine.runs(str(link), "-o", "/etc/passwd") == []
        link.unlink()
        link.symlink_to("/bin/sh")
        assert machine.runs(str(link), *POWER[1:]) == []


def test_words_that_hold_spaces_reach_the_tool_as_one_word_which_it_does_not_know(
    machine: SudoMachine,
) -> None:
    """sudo compares all words joined by spaces, so these are allowed; ifconfig takes the first for an interface's name."""
    assert machine.runs("ifconfig", "bridge0 deletem en3") == ["0|ifconfig|bridge0 deletem en3"]


def test_nobody_else_is_allowed_anything(machine: SudoMachine) -> None:
    assert machine.runs(*POWER, user=UID + 1) == []


@pytest.mark.parametrize(
    "user", ["ALL", "%admin", "#0", "+all", "a,ALL", "a ALL=(ALL) NOPASSWD: ALL #", "a\nb", "", "a=b"]
)
def test_a_user_name_that_means_others_gets_no_lines(user: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a sudoers line"):
        sudoers.lines(user, every_command())


def test_the_harness_sees_a_hole(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the lines that allow any argument, the same attacks succeed."""
    with tempfile.TemporaryDirectory(prefix="su-") as folder:
        open_ = SudoMachine(
            Path(folder),
            (
                f"{USER} ALL=(root) NOPASSWD: /usr/bin/powermetrics",
                f"{USER} ALL=(root) NOPASSWD: /sbin/ifconfig ^en[0-9]{{1,3}} inet [0-9.]{{7,15}} delete$",
            ),
        )
        assert open_.runs(*ATTACKS["power writes a file"]) == ["0|powermetrics|-o|/etc/sudoers.d/evil|-n|1"]
        assert open_.runs(*ATTACKS["the address of people's network removed"]) != []


def test_bootstrap_finds_that_exact_lines_fit(machine: SudoMachine) -> None:
    needed = RootCommands(every_command())
    found = rights.answer(needed, machine.says(*rights.question(needed)))
    assert (found.refused, found.excess) == ((), ())
    assert machine.log.read_text() == "", "it has asked, and run nothing"


def test_bootstrap_finds_lines_that_allow_too_much_or_too_little() -> None:
    needed = RootCommands(every_command())
    with tempfile.TemporaryDirectory(prefix="su-") as folder:
        wide = SudoMachine(
            Path(folder),
            (
                f"{USER} ALL=(root) NOPASSWD: /usr/bin/powermetrics",
                f"{USER} ALL=(root) NOPASSWD: /sbin/ifconfig ^bridge0 (deletem|addm) en[0-9]{{1,3}}$",
            ),
        )
        found = rights.answer(needed, wide.says(*rights.question(needed)))
    assert found.excess == ("powermetrics -n 1 -o /var/root/reconciler", "ifconfig bridge0 deletem en0")
    assert {each.argv[0] for each in found.refused} == {"defaults", "ifconfig", "sysctl", "pmset", "shutdown"}
