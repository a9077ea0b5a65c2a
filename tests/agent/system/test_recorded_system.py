"""The answers about a machine to many outputs of its tools, compared with those that were recorded before."""

from __future__ import annotations

import os
import random
import subprocess
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent.system import files, machine, operating_system, process, usage
from reconciler.agent.system.usage import RankUsage, Usage
from tests.recorded import compare, digest, plain

RECORDED = Path(__file__).parents[1] / "recorded"
CLOCKS = ("0:00", "0:01.50", "1:02", "61:02.25", "1:02:03", "1-02:03:04", "12-00:00:00", "0:59.99")
ROWS = (
    "  1  2048 0:01.50",
    "22 0 1-02:03:04",
    "",
    "33 17",
    "x 5 0:01",
    "44 y 0:01",
    "55 6 0:07 more",
)


def test_outputs_of_ps_and_vm_stat_are_read_as_recorded() -> None:
    lines = [f"{each} {usage.seconds_of(each):g}" for each in CLOCKS]
    rng = random.Random(5)
    for _ in range(40):
        shown = "\n".join(rng.choices(ROWS, k=rng.randrange(5)))
        lines.append(f"{digest(shown)} {plain(usage._from_ps(shown))}")
    kinds = ("free", "active", "inactive", "speculative", "wired down", "purgeable")
    for _ in range(60):
        head = rng.choice(("page size of 16384 bytes", "page size of 4096 bytes", "no size"))
        pages = [
            f"Pages {kind}:   {rng.randrange(10 ** rng.randrange(1, 7))}{rng.choice('....,')}"
            for kind in kinds
        ]
        shown = "\n".join([head, *(each for each in pages if rng.random() < rng.choice((0.1, 0.8)))])
        lines.append(f"{digest(shown)} {usage.from_vm_stat(shown)}")
    for line in (
        "MemAvailable:   77 kB",
        "MemAvailable: 0 kB",
        "MemAvailable: 8 MB",
        " MemAvailable: 9 kB",
        "MemFree: 1 kB",
    ):
        shown = f"MemTotal: 99 kB\n{line}\nBuffers: 3 kB\n"
        lines.append(f"{line} {usage._available(shown)}")
    compare(RECORDED / "system-usage.txt", lines)


def test_the_use_of_ranks_between_measurements_is_as_recorded() -> None:
    lines, rng = [], random.Random(6)
    for number in range(18):
        seen, now = RankUsage(), 100.0
        for _ in range(5):
            now += rng.choice((0.0, -1.0, 1.0, 2.5, 5.0))
            spent = Usage(rng.choice((0.0, 1.0, 7.25, 60.0)), rng.randrange(9) * 4096)
            seen = seen.next(now, spent, rng.randrange(200))
            lines.append(f"{number} {plain(seen)[1:]}")
    compare(RECORDED / "system-rank-usage.txt", lines)


class Run:
    """``subprocess.run`` that answers what it is told to, and keeps what it was asked."""

    def __init__(self, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch, mac: bool = True) -> None:
        self.answers, self.calls = answers, []  # type: ignore[var-annotated]
        parts = {"is_linux": lambda: False, "is_mac": lambda: mac, "tool": lambda name: f"/bin/{name}"}
        for name, part in parts.items():
            monkeypatch.setattr(operating_system, name, part)
        faked = SimpleNamespace(**{**vars(subprocess), "run": self})
        monkeypatch.setattr(operating_system, "subprocess", faked)

    def __call__(self, command: Any, **given: Any) -> Any:
        self.calls.append((list(command), given))
        answer = self.answers.get(" ".join(command), self.answers.get(command[0], b""))
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(stdout=answer, returncode=0)


FAILURES = (
    FileNotFoundError(2, "gone"),
    subprocess.TimeoutExpired("x", 5),
    subprocess.CalledProcessError(1, "x"),
)


@pytest.mark.parametrize("pids", [(), (7,), (7, 8)])
def test_a_machine_without_proc_is_measured_with_its_tools(
    pids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = (
        b"Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free:  10.\nPages inactive:  5.\n"
    )
    answers = {"/bin/ps": b"7 2 0:01.50\n8 4 1:00\n", "/bin/vm_stat": stat, "/bin/sysctl": b"2\n"}
    run = Run(answers, monkeypatch)
    found = usage.measure(pids)
    assert (found.load.memory_free_bytes, found.load.pressure) == (15 * 16384, "warn")
    assert found.processes == ({7: Usage(1.5, 2048), 8: Usage(60.0, 4096)} if pids else {})
    asked = [each for each, _ in run.calls]
    assert asked == [
        *([["/bin/ps", "-o", "pid=,rss=,time=", "-p", ",".join(map(str, pids))]] if pids else []),
        ["/bin/vm_stat"],
        ["/bin/sysctl", "-n", "kern.memorystatus_vm_pressure_level"],
    ]
    assert {(given["timeout"], given["check"], given["env"]["LC_ALL"]) for _, given in run.calls} == {
        (5, False, "C")
    }


@pytest.mark.parametrize(("level", "meant"), [(b"1\n", "normal"), (b"4", "critical"), (b"3", ""), (b"", "")])
def test_each_level_of_pressure_has_its_word(
    level: bytes, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run({"/bin/sysctl": level}, monkeypatch)
    load = usage.measure([]).load
    assert (load.pressure, load.memory_free_bytes) == (meant, None)


@pytest.mark.parametrize("failure", FAILURES[:2])
def test_a_machine_whose_tools_cannot_run_is_measured_as_far_as_possible(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run(dict.fromkeys(("/bin/ps", "/bin/vm_stat", "/bin/sysctl"), failure), monkeypatch)
    found = usage.measure([7])
    assert (found.load.memory_free_bytes, found.load.pressure, found.processes) == (None, "", {})
    assert process.states([7]) == {}


def test_processes_on_a_machine_without_proc_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        b"Ss   Sun Nov  9 06:00:00 2025\n": "boot Sun Nov 9 06:00:00 2025",
        b"  T+ Sun Nov 29 06:00:00 2025\n": "boot Sun Nov 29 06:00:00 2025",
        b"Z    Sun Nov  9 06:00:00 2025\n": None,
        b"": None,
        b"\n": None,
    }
    for shown, born in answers.items():
        run = Run({"/bin/ps": shown}, monkeypatch)
        assert process.birth(7, "boot") == born
        assert run.calls[0][0] == ["/bin/ps", "-o", "stat=,lstart=", "-p", "7"]
        assert (run.calls[0][1]["timeout"], run.calls[0][1]["check"]) == (10, False)
    run = Run({"/bin/ps": b" 7 Ss\n8 T\n\nx S\n9\n10 S more\n"}, monkeypatch)
    assert process.states([7, 8]) == {7: "S", 8: "T"}
    assert run.calls[0][0] == ["/bin/ps", "-o", "pid=,state=", "-p", "7,8"]


PROC = b"7 (a (b) c) %b 1 2 3 4 5 6 7 8 9 10 150 250 13 14 15 16 1 18 4242 20 21 22 23"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of ``/proc``."""

    def at(*parts: str) -> Path:
        return tmp_path.joinpath(*(part.replace("/proc/", "") for part in parts))

    for each in (operating_system, usage, machine):
        monkeypatch.setattr(each, "Path", at)
    monkeypatch.setattr(operating_system, "is_linux", lambda: True)
    monkeypatch.setattr(operating_system, "is_mac", lambda: False)
    return tmp_path


def test_processes_in_proc_are_told_apart(proc: Path) -> None:
    for pid, state in ((7, b"S"), (8, b"T"), (9, b"Z"), (10, b"X"), (11, b"t")):
        (proc / str(pid)).mkdir()
        (proc / str(pid) / "stat").write_bytes(PROC % state)
    assert process.states([6, 7, 8, 9, 11, 12]) == {7: "S", 8: "T", 9: "Z", 11: "t"}
    assert [process.birth(pid, "boot") for pid in (6, 7, 8, 9, 10, 11)] == [
        *(None, "boot 4242", "boot 4242", None, None, "boot 4242")
    ]
    (proc / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   77 kB\n")
    found = usage.measure(iter([6, 7]))
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert found.processes == {7: Usage(400 / ticks, 21 * page)}
    assert (found.load.memory_free_bytes, found.load.pressure) == (77 * 1024, "")


def test_facts_of_a_mac_are_its_tools_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Any] = {
        "/bin/sysctl -n kern.bootsessionuuid": b" BOOT \n",
        "/bin/sysctl -n hw.memsize": b"68719476736\n",
        "/bin/sw_vers -buildVersion": b"25A354\n",
        "/bin/ioreg": b'  "IOPlatformUUID" = "ab-12"\n',
    }
    run = Run(answers, monkeypatch)
    monkeypatch.setattr(machine, "boot_id", machine.boot_id.__wrapped__)
    assert (machine.boot_id(), machine.memory_bytes(), machine.build()) == ("BOOT", 68719476736, "25A354")
    assert machine._host_name() == "platform AB-12"
    assert run.calls[-1][0] == ["/bin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice"]
    assert {(given["timeout"], given["check"]) for _, given in run.calls} == {(10, True)}
    for failure in FAILURES:
        answers["/bin/sw_vers -buildVersion"] = failure
        assert machine.build() == ""


@pytest.mark.parametrize(
    ("kept", "address", "name"),
    [
        ("0123456789abcdef0123456789abcdef\n", 1, "machine 0123456789abcdef0123456789abcdef"),
        ("0123456789abcdef0123456789abcdef0", 1, "host far 000000000001"),
        ("uninitialized", 0xAABBCCDDEEFF & ~(1 << 40), "host far aabbccddeeff"),
        (None, 0x0ABBCCDDEEFF, "host far 0abbccddeeff"),
        (None, 0x010000000002, "host far 000000000000"),
    ],
)
@pytest.mark.parametrize("mac", [False, True])
def test_a_machine_is_named_by_what_is_its_own(
    kept: str | None, address: int, name: str, mac: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run({"/bin/ioreg": b"nothing"}, monkeypatch, mac)
    path = tmp_path / "machine-id"
    if kept is not None:
        path.write_text(kept)
    monkeypatch.setattr(machine, "Path", lambda shown: path if shown == "/etc/machine-id" else None)
    monkeypatch.setattr(machine, "uuid", SimpleNamespace(getnode=lambda: address))
    monkeypatch.setattr(machine, "os", SimpleNamespace(uname=lambda: SimpleNamespace(nodename="far")))
    assert machine._host_name() == name
    assert (len(machine.host_id()), machine.build() == "") == (32, True)


def test_a_machine_that_is_no_mac_has_no_build(proc: Path) -> None:
    assert machine.build() == ""
    assert machine.memory_bytes() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_tools_are_looked_for_in_the_given_folders_first(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    answers = {"-s": "Darwin", "-n": "far", "-r": "25.0", "-m": "arm64"}
    for folder, names in ((first, ("ps",)), (second, ("ps", "uname"))):
        folder.mkdir()
        for name in names:
            path = folder / name
            path.write_text(
                "#!/bin/sh\ncase $1 in "
                + " ".join(f"{k}) echo {v};;" for k, v in answers.items())
                + " esac\n"
            )
            path.chmod(0o755)
    (first / "uname").write_text("not to be run")
    operating_system.use((str(first), str(second)))
    try:
        assert operating_system.tool("ps") == str(first / "ps")
        assert operating_system.tool("uname") == str(second / "uname")
        assert operating_system.tool("no-such-tool") == "/usr/bin/no-such-tool"
        assert operating_system.uname() == ("Darwin", "far", "25.0", "arm64")
        assert (operating_system.is_mac(), operating_system.is_linux()) == (True, False)
        assert not operating_system.emulated()
        (second / operating_system.EMULATED).touch()
        assert operating_system.emulated()
    finally:
        operating_system.use(operating_system.FOLDERS)
    own = os.uname()
    assert operating_system.uname() == (own.sysname, own.nodename, own.release, own.machine)


def test_the_oldest_files_are_removed_until_half_is_left(tmp_path: Path) -> None:
    lines = []
    for sizes, most in product(
        ((5, 5, 5, 5), (1, 9, 1, 9), (20,), (10, 0, 10)), (4, 9, 10, 11, 19, 20, 21, 40)
    ):
        for at, size in enumerate(sizes):
            path = tmp_path / f"{at % 2}" / f"{at}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"x" * size)
            os.utime(path, (100 - at, 100 - at))
        files.prune(tmp_path, most)
        left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
        lines.append(f"{sizes} {most}: {' '.join(left)}")
    compare(RECORDED / "system-pruned.txt", lines)


def test_ends_of_files_are_as_long_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert files.tail(path, 5) == ""
    path.write_bytes("0123é".encode())
    assert [files.tail(path, each) for each in (1, 2, 3, 6, 7)] == [
        "\N{REPLACEMENT CHARACTER}",
        "é",
        "3é",
        "0123é",
        "0123é",
    ]


def test_a_file_is_replaced_whole_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    files.write_json(path, {"a": [1, 2]})
    assert (path.read_text(), path.stat().st_mode & 0o777) == ('{"a":[1,2]}\n', 0o600)
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]
    assert files.place(tmp_path) == f"{tmp_path.stat().st_dev}:{tmp_path.stat().st_ino}"


class Held:
    """A process that the kernel holds until it is asked about so often."""

    def __init__(self, looks: int) -> None:
        self.looks, self.killed, self.waits = looks, 0, []  # type: ignore[var-annotated]

    def kill(self) -> None:
        self.killed += 1

    def wait(self, seconds: float) -> int:
        self.waits.append(seconds)
        if self.looks:
            raise subprocess.TimeoutExpired("x", seconds)
        return -9

    def poll(self) -> int | None:
        self.looks -= 1
        return -9 if self.looks <= 0 else None


def test_a_process_that_the_kernel_holds_is_asked_about_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_left", [])
    first, second, gone = Held(2), Held(3), Held(0)
    assert [process.end(each) for each in (first, second, gone)] == [None, None, -9]  # type: ignore[arg-type]
    assert [process.reap() for _ in range(4)] == [2, 1, 0, 0]
    assert {(each.killed, tuple(each.waits)) for each in (first, second, gone)} == {
        (1, (process.REAP_SECONDS,))
    }


def test_signals_to_what_is_gone_are_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, int, int]] = []

    def failing(name: str, error: OSError) -> Any:
        def send(pid: int, number: int) -> None:
            sent.append((name, pid, number))
            raise error

        return send

    for error in (ProcessLookupError(), PermissionError()):
        monkeypatch.setattr(
            process, "os", SimpleNamespace(killpg=failing("group", error), kill=failing("one", error))
        )
        process.signal_group(5, 9)
        if isinstance(error, ProcessLookupError):
            process.signal_process(6, 15)
        else:
            with pytest.raises(PermissionError):
                process.signal_process(6, 15)
    assert sent == [("group", 5, 9), ("one", 6, 15)] * 2
