"""What is to be done on a machine, by what was found there: read it as a person would."""

from __future__ import annotations

import plistlib
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from reconciler.errors import Unreachable
from reconciler.hardening import sudoers
from reconciler.planning.nodes.root_commands import RootCommand, RootCommands
from reconciler.remote.bootstrap import actions, rights, survey
from reconciler.remote.bootstrap.actions import Action, Place, Run, Write
from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.bootstrap.service import definition, script, service_name
from reconciler.remote.bootstrap.survey import Survey
from reconciler.remote.nodes.bootstrap import BootstrapPlan
from reconciler.service_managers import launchd, unmanaged
from reconciler.service_managers.definitions import Keeper
from reconciler.wire.repair import POWER
from tests.hardening.rights import every_command

MAC = Profile(PurePosixPath("/u/ada"), "Darwin", "arm64", "ada", 501, "studio-1.local", "/usr/bin/python3")
LINUX = replace(MAC, home=PurePosixPath("/u/ada"), system="Linux", machine="x86_64")
TOOLS = {
    "sudo": "/usr/bin/sudo",
    "install": "/usr/bin/install",
    "launchctl": "/bin/launchctl",
    "systemctl": "/usr/bin/systemctl",
}
SERVE = ("/usr/bin/python3", "-I", "agent.pyz", "serve", "--node", "far")


def place(found: Profile, there: bool = True) -> Place:
    agent = Write(found.root / "agents" / "agent.pyz", b"....")
    authorized = Write(found.home / ".ssh" / "authorized_keys", b"keys", shown="restrict…")
    return Place("far", found, None, SERVE, agent, there, authorized, admitted=there)


def seen(keeper: Keeper, **more: object) -> Survey:
    return replace(Survey(keeper, TOOLS, "sudo"), **more)  # type: ignore[arg-type]


def settled(found: Profile, keeper: Keeper, **more: object) -> Survey:
    """Where all is in place."""
    made = definition(keeper, found, "far")
    held = {"definition": made, "draft": made, "loaded": True, "script": script(keeper, found, "far", SERVE)}
    return seen(keeper, **{**held, "pid": 7, "agent": 7, **more})


def lines(actions: tuple[Action, ...]) -> list[str]:
    return [("by a person: " if each.by_person else "") + str(each.act) for each in actions]


def test_a_mac_gets_a_launch_daemon() -> None:
    planned = actions.actions(seen(Keeper.LAUNCHD), place(MAC, there=False))
    assert lines(planned)[:4] == [
        "write /u/ada/.reconciler/agents/agent.pyz (mode 0600, 4 bytes)",
        "$ /usr/bin/python3 -I /u/ada/.reconciler/agents/agent.pyz --help",
        "write /u/ada/.ssh/authorized_keys (mode 0600, 4 bytes)",
        f"write /u/ada/.reconciler/nodes/far/serve (mode 0600, {len(planned[3].act.content)} bytes)",  # type: ignore[union-attr]
    ]
    draft, final = (
        "/u/ada/.reconciler/nodes/far/reconciler-ada-far.plist",
        "/Library/LaunchDaemons/reconciler-ada-far.plist",
    )
    assert lines(planned)[5:] == [
        f"$ /usr/bin/sudo -n /usr/bin/install -o root -g wheel -m 644 {draft} {final}",
        str(Run(launchd.load(("/usr/bin/sudo", "-n", "/bin/launchctl"), "reconciler-ada-far", final))),
    ]
    assert all(each.why for each in planned)


def test_a_launch_daemon_is_what_keeps_ranks_alive_and_at_full_speed() -> None:
    assert plistlib.loads(definition(Keeper.LAUNCHD, MAC, "far").encode()) == {
        "Label": "reconciler-ada-far",
        "UserName": "ada",
        "ProgramArguments": ["/bin/sh", "/u/ada/.reconciler/nodes/far/serve"],
        "RunAtLoad": True,
        "KeepAlive": {"PathState": {"/u/ada/.reconciler/nodes/far/serve": True}},
        "ProcessType": "Interactive",
        "AbandonProcessGroup": True,
    }


UNIT = """\
[Unit]
Description=Agent of reconciler for node far
ConditionPathExists=/u/ada/.reconciler/nodes/far/serve
RequiresMountsFor="/u/ada/.reconciler/nodes/far/serve"
StartLimitIntervalSec=0

[Service]
User=ada
ExecStart=/bin/sh "/u/ada/.reconciler/nodes/far/serve"
Restart=always
RestartSec=1
KillMode=process
OOMPolicy=continue
TimeoutStopSec=10

[Install]
WantedBy=multi-user.target
"""


def test_a_linux_gets_a_unit() -> None:
    assert definition(Keeper.SYSTEMD, LINUX, "far") == UNIT
    theirs = definition(Keeper.SYSTEMD_OF_USER, LINUX, "far")
    assert theirs == UNIT.replace("User=ada\n", "").replace("multi-user", "default")
    odd = replace(LINUX, home=PurePosixPath('/u/50% "$x"'))
    assert 'ExecStart=/bin/sh "/u/50%% \\"$$x\\"/.reconciler' in definition(Keeper.SYSTEMD, odd, "far")
    planned = actions.actions(seen(Keeper.SYSTEMD), place(LINUX))
    draft = "/u/ada/.reconciler/nodes/far/reconciler-ada-far.service"
    assert lines(planned)[2:] == [
        f"$ /usr/bin/sudo -n /usr/bin/install -o root -g root -m 644 {draft} /etc/systemd/system/reconciler-ada-far.service",
        "$ /usr/bin/sudo -n /usr/bin/systemctl daemon-reload",
        "$ /usr/bin/sudo -n /usr/bin/systemctl enable --now reconciler-ada-far.service",
    ]


def test_who_lingers_needs_no_administrator() -> None:
    planned = actions.actions(seen(Keeper.SYSTEMD_OF_USER, administrator=""), place(LINUX))
    assert [line.partition(" (")[0] for line in lines(planned)][1:] == [
        "write /u/ada/.config/systemd/user/reconciler-ada-far.service",
        "$ /usr/bin/env XDG_RUNTIME_DIR=/run/user/501 /usr/bin/systemctl --user daemon-reload",
        "$ /usr/bin/env XDG_RUNTIME_DIR=/run/user/501 /usr/bin/systemctl --user enable --now reconciler-ada-far.service",
    ]
    assert actions.notes(LINUX, seen(Keeper.SYSTEMD_OF_USER, administrator=""), "far") == ()


def test_root_needs_no_sudo() -> None:
    root = replace(LINUX, user="root", uid=0)
    planned = actions.actions(seen(Keeper.SYSTEMD, administrator="root"), place(root))
    assert "$ /usr/bin/systemctl daemon-reload" in lines(planned)


@pytest.mark.parametrize(
    "keeper", [Keeper.LAUNCHD, Keeper.SYSTEMD, Keeper.SYSTEMD_OF_USER], ids=lambda k: k.value
)
def test_where_all_is_in_place_nothing_is_done(keeper: Keeper) -> None:
    assert actions.actions(settled(MAC, keeper), place(MAC)) == ()


def test_where_there_is_no_service_manager_only_files_are_put() -> None:
    assert actions.actions(seen(Keeper.NOTHING), place(LINUX)) == ()
    (note,) = actions.notes(LINUX, seen(Keeper.NOTHING), "far")
    assert "a plain process" in note.text


@pytest.mark.parametrize(
    ("keeper", "found", "expected"),
    [
        (Keeper.LAUNCHD, {"agent": 9}, [str(Run(unmanaged.end(9)))]),
        (Keeper.SYSTEMD, {"agent": 9}, [str(Run(unmanaged.end(9)))]),
        (Keeper.LAUNCHD, {"agent": 0, "pid": 0}, ["$ /usr/bin/sudo -n /bin/launchctl kickstart system/reconciler-ada-far"]),
        (Keeper.SYSTEMD, {"agent": 0, "pid": 0}, ["$ /usr/bin/sudo -n /usr/bin/systemctl start reconciler-ada-far.service"]),
        (Keeper.LAUNCHD, {"agent": 0}, []),
        (Keeper.SYSTEMD, {"loaded": False}, ["$ /usr/bin/sudo -n /usr/bin/systemctl enable --now reconciler-ada-far.service"]),
    ],
    ids=["a plain agent", "a plain agent", "none", "none", "one that begins", "not at boot"],
)  # fmt: skip
def test_what_has_gone_another_way_is_put_right(
    keeper: Keeper, found: dict[str, object], expected: list[str]
) -> None:
    assert lines(actions.actions(settled(MAC, keeper, **found), place(MAC))) == expected


@pytest.mark.parametrize("keeper", [Keeper.LAUNCHD, Keeper.SYSTEMD], ids=lambda k: k.value)
def test_another_definition_is_replaced(keeper: Keeper) -> None:
    planned = actions.actions(settled(MAC, keeper, definition="old"), place(MAC))
    whys = [each.why.partition(";")[0] for each in planned]
    if keeper is Keeper.LAUNCHD:  # it never runs an earlier definition, wherever this ends
        assert whys == [
            "unload the service",
            "install it in the system",
            "start the agent now and at every boot",
        ]
    else:
        assert whys == ["install it in the system", "let systemd read it", "restart the service"]


@pytest.mark.parametrize("found", [{"loaded": False}, {"at_boot": False}], ids=["now", "at the next boot"])
def test_a_mac_without_its_service_gets_the_definition_again(found: dict[str, object]) -> None:
    """It is as it should be, but others than root may change it, or a person has disabled the service."""
    planned = actions.actions(settled(MAC, Keeper.LAUNCHD, **found), place(MAC))
    assert [each.why.partition(":")[0] for each in planned[-2:]] == [
        "install it in the system",
        "start the agent now and at every boot",
    ]


def test_an_agent_beside_a_service_that_runs_none_gives_way_and_the_service_starts() -> None:
    planned = actions.actions(settled(MAC, Keeper.LAUNCHD, agent=9, pid=0), place(MAC))
    assert lines(planned) == [
        str(Run(unmanaged.end(9))),
        "$ /usr/bin/sudo -n /bin/launchctl kickstart system/reconciler-ada-far",
    ]


@pytest.mark.parametrize("shell", ["/usr/bin/fish", "/bin/tcsh", "/bin/csh", "/opt/homebrew/bin/fish"])
def test_who_has_another_shell_is_told_to_paste_into_sh(shell: str) -> None:
    for found in (MAC, LINUX):
        note, *_ = actions.notes(
            replace(found, login_shell=shell), seen(Keeper.LAUNCHD, administrator=""), "far"
        )
        assert (note.text.partition(",")[0], note.command) == (shell, "sh")
        plain = actions.notes(
            replace(found, login_shell="/bin/zsh"), seen(Keeper.LAUNCHD, administrator=""), "far"
        )
        assert "sh" not in [each.command for each in plain]
        all_done_here = actions.notes(
            replace(found, login_shell=shell), seen(Keeper.LAUNCHD, administrator="sudo"), "far"
        )
        assert "sh" not in [each.command for each in all_done_here]


def test_without_sudo_a_person_gets_the_commands_and_what_can_be_done_is() -> None:
    planned = actions.actions(seen(Keeper.LAUNCHD, administrator="", agent=9), place(MAC))
    service = definition(Keeper.LAUNCHD, MAC, "far")
    final = "/Library/LaunchDaemons/reconciler-ada-far.plist"
    load = Run(launchd.load(("sudo", "launchctl"), "reconciler-ada-far", final))
    assert [line.partition(" (mode")[0] for line in lines(planned)] == [
        "write /u/ada/.reconciler/nodes/far/serve",
        f"by a person: $ sudo tee {final} <<'END-OF-FILE'\n{service}END-OF-FILE",
        f"by a person: $ sudo chown root:wheel {final}",
        f"by a person: $ sudo chmod 644 {final}",
        f"by a person: {load}",
        f"by a person: {Run(unmanaged.end(9))}",
    ]
    plan = BootstrapPlan(MAC, seen(Keeper.LAUNCHD, administrator=""), planned, ())
    assert plan.own_actions == planned[:1]
    note, _ = actions.notes(MAC, seen(Keeper.LAUNCHD, administrator=""), "far")
    assert "may not reach the local network" in note.text
    (note,) = actions.notes(LINUX, seen(Keeper.SYSTEMD, administrator=""), "far")
    assert note.command == "sudo loginctl enable-linger ada"
    assert actions.notes(LINUX, seen(Keeper.SYSTEMD, administrator="", loaded=True), "far") == ()


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({"macos": "26.3", "rdma": "enabled", "filevault": "FileVault is Off.", "sleep": "0", "autorestart": "1"}, []),
        ({"macos": "26.1", "rdma": "disabled"}, ["update to 26.2"]),
        ({"macos": "26.2", "rdma": "disabled"}, ["rdma_ctl enable"]),
        ({"filevault": "FileVault is On, but needs to be restarted to finish."}, ["FileVault is on"]),
        ({"filevault": "FileVault is On.", "sleep": "1", "autorestart": "0"},
         ["FileVault is on", "pmset -c sleep 0", "pmset -c autorestart 1"]),
    ],
    ids=["a server", "an old macOS", "no RDMA", "a disk being encrypted", "a desk"],
)  # fmt: skip
def test_what_only_a_person_can_change_on_a_mac_is_reported(
    outputs: dict[str, str], words: list[str]
) -> None:
    planned = actions.notes(MAC, seen(Keeper.LAUNCHD, mac_facts=outputs), "far")
    assert len(planned) == len(words)
    for note, word in zip(planned, words, strict=True):
        assert word in f"{note.text}\n{note.command}"


def test_a_service_has_a_name_that_service_managers_take() -> None:
    assert service_name("CORP\\ada.l", "far") == "reconciler-CORP-ada.l-far"


def test_an_answer_that_is_none_is_quoted() -> None:
    with pytest.raises(Unreachable, match="This account is not available"):
        survey.answer("This account is not available")


def test_a_runtime_that_is_lacking_comes_first() -> None:
    lacking = replace(place(MAC), runtime=MAC.root / "runtimes" / "abc")
    assert lines(actions.actions(settled(MAC, Keeper.LAUNCHD), lacking)) == [
        "build /u/ada/.reconciler/runtimes/abc"
    ]


NEEDED = RootCommands(
    (
        RootCommand(POWER, "tell power and heat"),
        RootCommand(("ifconfig", "en3", "inet", "169.254.*.*", "delete"), "the cable far/3 - near/3"),
    )
)


def test_sudo_is_asked_for_each_command_as_it_is_typed_with_an_address_where_any_may_stand() -> None:
    asked = rights.question(NEEDED)[2]
    assert f"sudo -n -l /usr/bin/{' '.join(POWER)} " in asked
    assert "sudo -n -l /sbin/ifconfig en3 inet 169.254.31.200 delete " in asked
    assert "*" not in asked


def test_what_sudo_lacks_is_printed_line_by_line() -> None:
    (note,) = actions.notes(
        MAC, seen(Keeper.LAUNCHD, administrator="", loaded=True), "far", rights.answer(NEEDED, "")
    )
    assert (
        "sudo does not allow ada what these need: tell power and heat, the cable far/3 - near/3" in note.text
    )
    assert "sudo visudo -f /etc/sudoers.d/reconciler" in note.text
    assert note.command.split("\n     ") == list(sudoers.lines("ada", NEEDED.commands))


def test_nothing_is_said_where_sudo_allows_exactly_what_is_needed() -> None:
    exact = rights.answer(NEEDED, "reconciler-profile allows 0\nreconciler-profile allows 1\n")
    assert actions.notes(MAC, seen(Keeper.LAUNCHD, administrator="", loaded=True), "far", exact) == ()
    assert actions.notes(MAC, seen(Keeper.LAUNCHD), "far") == ()


def test_lines_that_allow_too_much_are_reported_with_an_every_command() -> None:
    wide = rights.answer(NEEDED, "".join(f"reconciler-profile allows {number}\n" for number in (0, 1, 2)))
    (note,) = actions.notes(MAC, seen(Keeper.LAUNCHD, administrator="", loaded=True), "far", wide)
    assert (
        "sudo allows ada more than is needed, such as: powermetrics -n 1 -o /var/root/reconciler" in note.text
    )
    assert "in place of all in it" in note.text


def test_only_what_sudo_was_asked_about_counts_as_allowed() -> None:
    for text in ("reconciler-profile uid 0\n", "reconciler-profile allows x\n", "allows 0\n"):
        assert rights.answer(NEEDED, text).refused == NEEDED.commands


def test_what_is_not_known_yet_is_said() -> None:
    unknown = rights.answer(RootCommands((), ("the interface of far/3 is not known",)), "")
    (note,) = actions.notes(MAC, seen(Keeper.LAUNCHD, administrator="", loaded=True), "far", unknown)
    assert note.text.startswith("the interface of far/3 is not known")
    (note,) = actions.notes(MAC, seen(Keeper.LAUNCHD, administrator="", loaded=True), "far")
    assert "start `reconciler up`" in note.text


def test_the_page_has_the_lines_of_a_mac_with_one_cable() -> None:
    page = (Path(__file__).parents[2] / "docs" / "machines.md").read_text()
    assert [line for line in page.splitlines() if "NOPASSWD" in line] == list(
        sudoers.lines("cluster", every_command())
    )
