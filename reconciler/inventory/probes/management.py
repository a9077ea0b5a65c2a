"""Probes of disk encryption, enrolment, launchd, crash reports and processes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from reconciler.wire.tools import RunTool, ToolSaid

from .probe import Probe, Unknown, complete, failed, number, of_complete, shown, unlike

REPORTS_MINUTES = 60
"""Age up to which crash and panic reports count as new, in minutes."""
PANICS_MINUTES = 24 * 60
"""Age up to which panic reports are read, in minutes."""
PANIC_BYTES = 16_384
"""The beginning of a panic report that is read. In public reports the backtrace ends within some 8 KiB."""
_FOLDER = "/Library/Logs/DiagnosticReports"
_BACKTRACE_ENDS = re.compile(r"^(last (started|stopped) kext|loaded kexts)", re.MULTILINE)
"""The lines after it name every driver that is loaded, whatever has panicked."""
_RDMA = re.compile(r"^(?! *dependency:).*(AppleThunderboltRDMA|libthunderboltrdma)", re.MULTILINE)
_MEMORY = re.compile(r"panic\(.*(IOGPU\w*Memory|watchdog timeout: no checkins)")
"""Of the GPU's memory (github.com/ml-explore/mlx/issues/3346), and of a system that its wired memory starves."""


_FILEVAULT = re.compile(r"FileVault is (?:(On)[.,]|Off[.])")


@of_complete
def filevault(text: str) -> bool | Unknown:
    """Parse ``fdesetup status``: a sentence, and more sentences while a change is in progress. If it is on "but needs
    to be restarted to finish", the next start asks for the password."""
    found = _FILEVAULT.match(text)
    return unlike(text, "'FileVault is On.' or 'FileVault is Off.'") if found is None else bool(found[1])


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Enrolment with an organisation, which may install software on the machine and restart it."""

    managed: bool
    user_approved: bool = False


@of_complete
def enrolment(text: str) -> Enrolment | Unknown:
    """Parse ``profiles status -type enrollment``."""
    found = re.search(r"^MDM enrollment: (Yes|No)(?: \((User Approved)\))?$", text, re.MULTILINE)
    if found is None:
        return unlike(text, "'MDM enrollment: Yes' or 'No'")
    return Enrolment(found[1] == "Yes", bool(found[2]))


@dataclass(frozen=True, slots=True)
class Job:
    """A job, from ``launchctl print``."""

    exists: bool
    daemon: bool = False
    """True if it belongs to the system, and not to a user's session."""
    running: bool = False
    state: str = ""
    pid: int | None = None
    runs: int | None = None
    last_exit: str = ""
    """Its last exit code, or the signal or reason that ended it, as launchd reports it."""


def job(result: ToolSaid) -> Job | Unknown:
    """Parse ``launchctl print DOMAIN/LABEL``. Nested blocks are ignored, because they have the same keys."""
    if result.code == 113 and "Could not find service" in result.stdout + result.stderr:
        return Job(False)
    text = complete(result)
    if isinstance(text, Unknown):
        return text
    if not re.search(r"^\S+ = \{$", text.split("\n")[0]) or not text.rstrip().endswith("\n}"):
        return unlike(text, "one whole block 'LABEL = {'")
    fields = dict(re.findall(r"^\t([a-z][a-z ]*) = (?!\{)(.+)$", text, re.MULTILINE))
    ends = ("last terminating signal", "last exit reason", "last exit code")
    return Job(
        True,
        fields.get("type") == "LaunchDaemon",
        fields.get("state") == "running",
        fields.get("state", ""),
        number(fields.get("pid", ""), r"^([0-9]+)$"),
        number(fields.get("runs", ""), r"^([0-9]+)$"),
        next((fields[end] for end in ends if end in fields), ""),
    )


@dataclass(frozen=True, slots=True)
class Reports:
    """Names of new reports, without their folder."""

    panics: tuple[str, ...]
    crashes: tuple[str, ...]
    """Reports of crashed programs, and of exhausted memory."""


def reports(result: ToolSaid) -> Reports | Unknown:
    """Parse ``find FOLDER … -mmin -60``: one path per line, by the machine's own clock."""
    if result.code != 0:
        return failed(result)
    if result.stdout and not result.stdout.endswith("\n"):
        return Unknown("its output ends in the middle of a line")
    names = sorted({PurePosixPath(line).name for line in result.stdout.split("\n") if line.startswith("/")})
    if result.stdout and not names:
        return unlike(result.stdout, "absolute paths")
    panics = tuple(filter(_is_panic, names))
    crashes = tuple(name for name in names if name not in panics and name.endswith((".ips", ".crash")))
    return Reports(panics, crashes)


def _is_panic(name: str) -> bool:
    return name.endswith(".panic") or name.startswith("panic-")


@dataclass(frozen=True, slots=True)
class Panics:
    """Names of the panic reports of a day, without their folder, by what they are about. Others are about neither."""

    rdma: tuple[str, ...]
    """Those whose backtrace names the driver of RDMA."""
    memory: tuple[str, ...]
    """Those about the memory that the GPU has wired."""


def panics(result: ToolSaid) -> Panics | Unknown:
    """Parse ``find … -print -exec head …``: the path of each report, then its beginning, and then an empty line.

    The text of a panic is a line of JSON, or stands alone in reports of older systems. The format follows public reports,
    and was not measured.
    """
    if result.code != 0:
        return failed(result)
    if result.stderr.strip():
        return Unknown(f"a report could not be read: {shown(result.stderr)}")
    before, *found = re.split(rf"^{_FOLDER}/([^/\n]+)\n", result.stdout, flags=re.MULTILINE)
    texts = {name: text for name, text in zip(found[::2], found[1::2], strict=True) if _is_panic(name)}
    if before or not all(text.endswith("\n") and text.strip() for text in texts.values()):
        return unlike(result.stdout, "paths of reports, each before its text")
    traces = {
        name: _BACKTRACE_ENDS.split(text.replace("\\n", "\n"))[0] for name, text in sorted(texts.items())
    }
    rdma = tuple(name for name, trace in traces.items() if _RDMA.search(trace))
    return Panics(rdma, tuple(name for name, trace in traces.items() if _MEMORY.search(trace)))


def of_memory(names: Iterable[str]) -> int:
    """Count the reports on programs that were ended for lack of memory, by their names."""
    return sum(name.startswith("JetsamEvent-") for name in names)


def processes(result: ToolSaid) -> tuple[int, ...] | Unknown:
    """Parse ``pgrep``: status 0 means some, 1 means none; any other status means unknown, not none."""
    if result.code == 1 and not result.stdout.strip() and not result.stderr.strip():
        return ()
    text = complete(result)
    if isinstance(text, Unknown):
        return text
    found = {int(line) for line in text.split("\n") if re.fullmatch(r"[1-9][0-9]{0,9}", line)}
    return tuple(sorted(found)) or unlike(text, "one number for each process")


def _find(folder: str, minutes: int, *more: str) -> RunTool:
    return RunTool(("find", folder, "-maxdepth", "1", "-type", "f", "-mmin", f"-{minutes}", *more), 10.0)


FILEVAULT = Probe("FileVault", RunTool(("fdesetup", "status"), 5.0), filevault, 600.0)
ENROLMENT = Probe(
    "enrolment", RunTool(("profiles", "status", "-type", "enrollment"), 15.0), enrolment, 3600.0
)
JOB = Probe("agent's job", RunTool(("launchctl", "print", "system/reconciler-{user}-{node}"), 5.0), job, 60.0)
SYSTEM_REPORTS = Probe("panic reports", _find(_FOLDER, REPORTS_MINUTES), reports, 60.0)
USER_REPORTS = Probe("crash reports", _find(f"{{home}}{_FOLDER}", REPORTS_MINUTES), reports, 60.0)
_READ = ("-print", "-exec", "head", "-c", str(PANIC_BYTES), "{}", ";", "-exec", "echo", ";")
PANICS = Probe(
    "panics of a day",
    _find(_FOLDER, PANICS_MINUTES, "-name", "*panic*", *_READ),
    panics,
    3600.0,
    (SYSTEM_REPORTS,),
)
"""It reads again when there is a new report. An agent takes at most 1 MiB of the output of a tool."""
RANK_PROCESSES = Probe(
    "rank processes", RunTool(("pgrep", "-P", "1", "-f", "reconciler[.]runner"), 5.0), processes, 30.0
)
"""Processes of ranks that have lost their shim: launchd is their parent then, and no agent knows of them."""
