"""The standalone script, run for real by this machine's own ``sh``, with the scripted tools of a Mac."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from reconciler.doctor.preconditions import PRECONDITIONS
from reconciler.inventory.examination.probing import LEFT_OUT, RISKY, RUN
from reconciler.inventory.examination.record import Record, parse
from reconciler.inventory.examination.report import report
from reconciler.inventory.examination.script import main, script
from reconciler.wire.tools import Ending, ToolSaid
from tests.inventory.probes.cases import BY_TOOL, Case, load
from tests.inventory.probes.mac import Mac

from .emulated import ready, record_of

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
PROBE_LINE = re.compile(r"    (?:probe|left_out) ('[^']*'|\w+) ")
LIMIT = r"(?m)^( +probe (?:'[^']*'|\w+)) [0-9]+ "
PATIENCE_SECONDS = 90
"""Time limit of tools that only a busy machine makes slow."""
SHELLS = ["dash", "bash", pytest.param("busybox", marks=pytest.mark.needs("busybox"))]
MATCHED = {match.probe for row in PRECONDITIONS for match in row.matches}
CASES = [case for case in load() if case.probe.name in MATCHED]


class Run:
    """A Mac's folder of tools, and runs of the script there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("tools", "home", "tmp"):
            (folder / name).mkdir()
        self.mac = Mac(folder / "tools")
        self.text = re.sub(LIMIT, rf"\1 {PATIENCE_SECONDS} ", script())

    def __call__(self, *words: str, shell: str = "sh", **more: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.folder / 'tools'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "TERM_PROGRAM": "Apple_Terminal",
        } | more
        command = {"busybox": ("busybox", "sh"), "bash": ("bash", "--posix")}.get(shell, (shell,))
        return subprocess.run(
            [*command, "-c", self.text, "examine", *words], env=environment, cwd=self.folder / "home",
            capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def only(self, *names: str) -> None:
        """Run no other probes."""
        head, begin, rest = self.text.partition("\nprobes() {\n")
        body, end, tail = rest.partition("\n}\n")
        other = [
            line
            for line in body.split("\n")
            if (found := PROBE_LINE.match(line)) and found[1].strip("'") not in names
        ]
        kept = [line for line in body.split("\n") if line not in other]
        self.text = head + begin + "\n".join(kept) + end + tail

    def record(self, *words: str) -> Record:
        done = self(*words, "-")
        assert done.returncode == 0, done.stderr
        return parse(done.stdout, "file")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_the_file_in_the_repository_is_what_the_tables_give(tmp_path: Path) -> None:
    assert main([str(ROOT / "examples" / "examine-mac.sh"), "--check"]) == 0
    assert main([str(tmp_path / "missing.sh"), "--check"]) == 1
    assert main([]) == 2


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_understood_by_every_shell_that_is_here(run: Run, shell: str) -> None:
    run.only("RDMA", "FileVault", "kernel objects", "RDMA devices", RISKY.name, "power")
    for _ in range(5):  # a shell that waits for its jobs loses an end now and then
        began = time.monotonic()
        done = run("file.txt", shell=shell)
        assert (done.returncode, done.stderr) == (0, "")
        assert time.monotonic() - began < PATIENCE_SECONDS
    record = parse((run.folder / "home" / "file.txt").read_text(), "file.txt")
    assert set(record.said) == {"RDMA", "FileVault", "kernel objects", "RDMA devices", RISKY.name}
    assert "power" in record.left_out
    assert {said.ending for said in record.said.values()} == {Ending.ENDED}


def test_what_tools_print_is_read_as_if_the_agent_had_run_them(run: Run) -> None:
    record = run.record()
    assert set(record.said) | set(record.left_out) == {probe.name for probe in RUN}
    assert set(record.left_out) == set(LEFT_OUT)
    outputs = {f"{case.tool}/{case.name}": case for case in load()}
    for name, case in {"pages": "vm_stat/24_gib", "settings": "sysctl/boot_time_named"}.items():
        assert record.said[name] == outputs[case].output


def test_it_prints_each_precondition_and_names_the_file(run: Run) -> None:
    run.only("FileVault")
    run.mac.set_output("fdesetup", "fdesetup/on")
    lines = run().stdout.splitlines()
    assert [line[10:].split(":")[0] for line in lines if re.match(r"[a-z]", line) and ":" in line] == [
        row.name for row in PRECONDITIONS
    ]
    assert "fail      FileVault: FileVault is off" in lines
    assert any("to do   on this Mac: sudo fdesetup disable" in line for line in lines)
    (file,) = (run.folder / "home").iterdir()
    assert lines[-1].endswith(f"is in {file.name}")
    assert file.stat().st_mode & 0o77 == 0


def test_it_leaves_nothing_but_the_file(run: Run) -> None:
    run.only("RDMA")
    run("file.txt")
    assert [path.name for path in (run.folder / "home").iterdir()] == ["file.txt"]
    assert list((run.folder / "tmp").iterdir()) == []


def test_a_tool_that_hangs_or_never_ends_or_breaks_off_or_is_not_there_is_told_with_the_rest(
    run: Run,
) -> None:
    run.only("RDMA", "RDMA setting", "FileVault", "pages", "disk")
    run.text = run.text.replace(f"probe RDMA {PATIENCE_SECONDS} ", "probe RDMA 1 ")
    run.mac.runs("rdma_ctl", "#!/bin/sh\nexec /bin/sleep 60\n")
    run.mac.loses("nvram")
    run.mac.runs("fdesetup", "#!/bin/sh\nprintf 'FileVault is'\n")
    run.mac.runs("vm_stat", "#!/bin/sh\nexec /usr/bin/yes\n")
    began = time.monotonic()
    said = run.record().said
    assert time.monotonic() - began < 60
    assert {name: each.ending for name, each in said.items()} == {
        "RDMA": Ending.LATE, "RDMA setting": Ending.ABSENT, "FileVault": Ending.ENDED, "pages": Ending.ENDLESS,
        "disk": Ending.ENDED,
    }  # fmt: skip
    assert said["FileVault"].stdout == "FileVault is"
    assert said["pages"].stdout == "y\n" * 20


@pytest.mark.parametrize("case", ["held", "not there"])
def test_the_driver_is_not_opened_beside_those_who_may_use_it_unless_it_is_asked_for(
    run: Run, case: str
) -> None:
    run.only("kernel objects", "RDMA devices", RISKY.name)
    if case == "held":
        run.mac.set_output("ioclasscount", "ioclasscount/held")
    else:
        run.mac.loses("ioclasscount")
    assert RISKY.name in run.record().left_out
    assert run.mac.times_run("ibv_devinfo") == 0
    assert RISKY.name in run.record("--verbs").said
    assert run.mac.times_run("ibv_devinfo") == 1


def test_the_driver_is_not_opened_after_its_other_tool_hung(run: Run) -> None:
    run.only("kernel objects", "RDMA devices", RISKY.name)
    run.text = run.text.replace(f"probe 'RDMA devices' {PATIENCE_SECONDS} ", "probe 'RDMA devices' 1 ")
    run.mac.runs("ibv_devices", "#!/bin/sh\nexec /bin/sleep 60\n")
    assert RISKY.name in run.record().left_out


def test_nothing_is_run_as_root_or_with_the_tools_of_others(run: Run) -> None:
    run.only("disk", "power")
    strange = run.folder / "strange"
    strange.mkdir()
    (strange / "df").write_text("#!/bin/sh\necho strange\n")
    (strange / "df").chmod(0o755)
    record = parse(run("-", PATH=f"{run.folder / 'tools'}:{strange}:{os.environ['PATH']}").stdout, "file")
    assert "strange" not in record.said["disk"].stdout
    run.mac.runs("sudo", f"#!/bin/sh\ntouch {run.folder}/as-root\n")
    run.record()
    assert not (run.folder / "as-root").exists()


def test_another_system_is_refused(run: Run) -> None:
    run.mac.set_output("uname", "Linux\n")
    done = run("file.txt")
    assert (done.returncode, done.stderr) == (2, "examine-mac.sh: this is no Mac: its system is Linux\n")
    assert list((run.folder / "home").iterdir()) == []
    assert run("--verb").returncode == 2


def test_without_a_way_to_replace_names_nothing_is_written(run: Run) -> None:
    run.only("disk")
    run.text = run.text.replace("BEGIN {", "BEGIN { exit 1", 1)
    done = run("file.txt")
    assert (done.returncode, "nothing is written" in done.stderr) == (1, True)
    assert list((run.folder / "home").iterdir()) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.tool}-{case.name}")
def test_a_verdict_of_the_script_is_never_another_than_that_of_the_file(case: Case) -> None:
    name = BY_TOOL[case.tool].name
    for row in PRECONDITIONS:
        matches = [match for match in row.matches if match.probe == name]
        simple = next((match.verdict for match in matches if printed(case, match.line)), None)
        said = {
            **record_of(ready()).said,
            **dict.fromkeys(row.probes, ToolSaid(Ending.ABSENT)),
            name: case.output,
        }
        judged = report("mini", Record("", "Darwin", False, "", said, {})).judgements
        assert simple in (None, next(each.verdict for each in judged if each.precondition is row)), row.name


def printed(case: Case, line: str) -> bool:
    """What the script asks: whether there is such a line."""
    lines = case.output.stdout + case.output.stderr
    return subprocess.run(["grep", "-Eq", line], input=lines, text=True, check=False).returncode == 0
