"""The preconditions of an emulated Mac: all pass when it is ready, and each is named where it is not met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.doctor.preconditions import PRECONDITIONS, Verdict, Versions, compare
from reconciler.errors import Refused
from reconciler.inventory.examination.report import report
from reconciler.planning.diagnosis.rules import RECOVERY
from reconciler.sandbox.world import changes
from reconciler.sandbox.world.state import World
from reconciler.wire.tools import Ending, ToolSaid

from .emulated import ready, record_of, report_of, verdicts

ME = "mini-1"
END = (ME, 1)
FLAWS: dict[str, Callable[[World], World]] = {
    "RDMA": lambda world: changes.rdma(world, ME, False),
    "FileVault": lambda world: changes.with_machine(world, ME, filevault=True),
    "updates": lambda world: changes.with_machine(world, ME, updates=True),
    "sleep": lambda world: changes.with_machine(world, ME, sleep_minutes=10),
    "organisation": lambda world: changes.with_machine(world, ME, managed=True),
    "firewall": lambda world: changes.with_machine(world, ME, firewall=True),
    "cable": lambda world: changes.slow(world, END),
    "addresses": lambda world: changes.bridge(world, ME, 1, True),
    "GID index": lambda world: changes.move_gid(world, ME, 1, 2),
    "macOS": lambda world: changes.with_machine(world, ME, version="26.1", build="25B78"),
}
"""What breaks one precondition, by its name."""
NEW_MAC = ("RDMA", "Remote Login", "FileVault", "updates", "sleep", "organisation", "firewall", "terminal", "cable",
           "addresses", "GID index", "disk", "macOS")  # fmt: skip


def test_the_order_is_that_of_the_risk() -> None:
    assert tuple(row.name for row in PRECONDITIONS) == NEW_MAC


def test_a_mac_that_is_ready_passes_everything() -> None:
    assert verdicts(report_of(ready())) == dict.fromkeys(NEW_MAC, "pass") | {"terminal": "n/a"}


@pytest.mark.parametrize("name", FLAWS)
def test_what_is_wrong_fails_its_row_with_a_remedy(name: str) -> None:
    found = report_of(FLAWS[name](ready()))
    judged = next(each for each in found.judgements if each.precondition.name == name)
    assert judged.verdict is Verdict.FAIL
    assert judged.steps
    assert "{" not in judged.steps + judged.text
    others = {row: verdict for row, verdict in verdicts(found).items() if row != name}
    assert Verdict.FAIL not in others.values()


def test_a_full_disk_fails_its_row() -> None:
    row = "/dev/disk3s5 100000000 99000000 1000000 99% /\n"
    full = f"Filesystem 1024-blocks Used Available Capacity Mounted on\n{row}{row}"
    record = record_of(ready())
    found = report(ME, replace(record, said={**record.said, "disk": ToolSaid(Ending.ENDED, 0, full)}))
    assert verdicts(found)["disk"] == "fail"


def test_every_row_can_fail() -> None:
    elsewhere = {"disk", "Remote Login", "terminal"}  # in tests of their own
    assert set(FLAWS) | elsewhere == {row.name for row in PRECONDITIONS}


def test_the_remedies_are_those_of_the_doctor() -> None:
    judged = report_of(FLAWS["RDMA"](ready())).judgements[0]
    assert judged.steps == RECOVERY.format(node=ME)


@pytest.mark.parametrize(
    ("over_ssh", "there", "verdict"),
    [(True, False, "pass"), (False, True, "pass"), (False, False, "fail")],
    ids=["reached by it", "its job is there", "its job is not there"],
)
def test_remote_login_is_on_where_somebody_came_by_it_or_its_job_is_there(
    over_ssh: bool, there: bool, verdict: str
) -> None:
    record = record_of(ready(), over_ssh=over_ssh)
    gone = ToolSaid(Ending.ENDED, 113, "", 'Could not find service "com.openssh.sshd" in domain for system\n')
    said = record.said if there else {**record.said, "Remote Login": gone}
    assert verdicts(report(ME, replace(record, said=said)))["Remote Login"] == verdict


@pytest.mark.parametrize(
    ("terminal", "verdict"), [("Apple_Terminal", "pass"), ("iTerm.app", "unknown"), ("", "unknown")]
)
def test_of_terminals_only_terminal_app_is_known_to_be_let_through(terminal: str, verdict: str) -> None:
    found = report_of(ready(), over_ssh=False, terminal=terminal)
    judged = next(each for each in found.judgements if each.precondition.name == "terminal")
    assert judged.verdict == verdict
    assert ("Local Network" in judged.steps) == (terminal == "iTerm.app")


def test_a_mac_without_a_cable_needs_no_address_yet() -> None:
    found = report_of(changes.unplug(ready(), END))
    rows = {"cable", "addresses", "GID index"}
    assert {name: verdict for name, verdict in verdicts(found).items() if name in rows} == dict.fromkeys(
        rows, "n/a"
    )


def test_a_mac_behind_a_dock_fails_by_its_cable() -> None:
    assert verdicts(report_of(changes.dock(ready(), END)))["cable"] == "fail"


def test_a_probe_that_was_left_out_leaves_its_row_unknown_with_the_reason() -> None:
    judged = {each.precondition.name: each for each in report_of(ready(), verbs=False).judgements}
    assert judged["GID index"].verdict is Verdict.UNKNOWN
    assert "--verbs" in judged["GID index"].text
    assert {each.verdict for name, each in judged.items() if name != "GID index"} <= {"pass", "n/a"}


def test_what_no_tool_tells_is_unknown_and_never_fine() -> None:
    record = record_of(ready(), over_ssh=False)
    silent = {name: ToolSaid(Ending.ABSENT) for name in record.said}
    found = report(ME, replace(record, said=silent))
    assert set(verdicts(found).values()) == {"unknown"}


def test_another_system_is_no_mac() -> None:
    with pytest.raises(Refused, match="mini-1 is no Mac: its system is Linux"):
        report_of(ready(), system="Linux 6.1 x86_64")


def test_machines_are_compared_by_version_build_and_driver() -> None:
    same = Versions("a", "26.3 (25D125)", "Jul 11")
    assert [each[1] for each in compare([same, replace(same, name="b")])] == [Verdict.PASS, Verdict.PASS]
    other, unknown = replace(same, name="b", macos="26.3 (25D126)"), replace(same, name="b", driver="")
    assert [each[1] for each in compare([same, other])] == [Verdict.FAIL, Verdict.PASS]
    assert [each[1] for each in compare([same, unknown])] == [Verdict.PASS, Verdict.UNKNOWN]
    assert "on a and b: System Settings" in compare([same, other])[0][3]
