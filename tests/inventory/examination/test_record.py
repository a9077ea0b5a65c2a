"""The file of an examination: read whole, refused with the place of what is wrong, and taken apart into cases."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reconciler.errors import Invalid
from reconciler.inventory.examination.record import parse
from reconciler.inventory.probes import verbs
from reconciler.wire.tools import Ending, ToolSaid
from tests.inventory.probes.cases import load
from tests.inventory.probes.take import main, take

from .scrubbing import scrub

FILE = """reconciler examination 1
at: 2026-11-24T08:40:00Z
system: Darwin 25.3.0 arm64
reached: terminal
terminal: Apple_Terminal

probe: RDMA
command: rdma_ctl status
ending: ended
status: 0
out|enabled

probe: kernel objects
ending: late
out|Apple|Thunder
out: its last line is not ended

probe: power
ending: left out
why: it needs an administrator
"""


def test_a_file_is_read() -> None:
    record = parse(FILE, "file")
    assert (record.at, record.system, record.over_ssh) == (
        "2026-11-24T08:40:00Z",
        "Darwin 25.3.0 arm64",
        False,
    )
    assert record.terminal == "Apple_Terminal"
    assert record.said == {
        "RDMA": ToolSaid(Ending.ENDED, 0, "enabled\n"),
        "kernel objects": ToolSaid(Ending.LATE, None, "Apple|Thunder"),
    }
    assert record.left_out == {"power": "it needs an administrator"}
    assert record.readings().of(verbs.RDMA_ENABLED) is True
    assert record.readings().hung(verbs.KERNEL_OBJECTS)


def test_it_may_have_passed_through_a_system_with_other_line_ends() -> None:
    assert (
        parse(FILE.replace("\n", "\r\n").replace("enabled\r", "enabled"), "file").left_out
        == parse(FILE, "f").left_out
    )


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("reconciler examination 1", "{}", r"file:1: expected reconciler examination 1, got '{}'"),
        ("examination 1", "examination 2", "file:1: its version is '2', expected 1"),
        ("out|enabled", "enabled", "file:11: expected KEY: VALUE"),
        ("ending: late", "ending: later", "file: probe kernel objects: expected an ending of ended, absent"),
    ],
)
def test_another_or_a_damaged_file_is_refused_with_its_place(before: str, after: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        parse(FILE.replace(before, after), "file")


def test_a_probe_that_is_not_known_here_is_passed_over() -> None:
    newer = FILE + "\nprobe: the future\nending: ended\nstatus: 0\nout|x\n"
    assert "the future" not in parse(newer, "file").readings().by_name


def test_a_file_is_taken_apart_into_cases_that_say_the_same(tmp_path: Path) -> None:
    known = {case.probe: case for case in load() if case.tool not in ("find", "pgrep")}
    record = scrub({probe: case.output for probe, case in known.items()})
    taken = {path.parent.name: path for path in take(record, "real", "a Mac", tmp_path)}
    assert taken.keys() == {case.tool for case in known.values()}
    for case in known.values():
        written = yaml.safe_load(taken[case.tool].with_suffix(".yaml").read_text())
        assert written.get("status", 0) == case.output.code
        assert ("facts" in written) == case.known
    assert list(take(record, "real", "a Mac", tmp_path)) == [], "what is there stays"
    assert [path.parent.name for path in take(record, "other", "a Mac", tmp_path, ("rdma_ctl",))] == [
        "rdma_ctl"
    ]


def test_taking_names_the_tools_that_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text(FILE)
    assert main([str(tmp_path / "file"), "real", "rdma-ctl"]) == 2
    assert "rdma-ctl: expected one of" in capsys.readouterr().err
    assert main([]) == 2
