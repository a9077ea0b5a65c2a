"""The machine itself: its system, its memory, its disk."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from reconciler.wire.tools import RunTool, ToolSaid

from .probe import Probe, Unknown, complete, failed, keyed, number, of_complete, unlike


@dataclass(frozen=True, slots=True)
class SystemVersion:
    """Version and build of macOS, such as ``(26, 3)`` and ``25D125``; an empty build if unknown."""

    version: tuple[int, ...]
    build: str = ""


@of_complete
def system_version(text: str) -> SystemVersion | Unknown:
    """Parse ``sw_vers``."""
    fields = keyed(text)
    version = fields.get("ProductVersion", "")
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}", version):
        return unlike(text, "a line 'ProductVersion:' with a number")
    build = fields.get("BuildVersion", "")
    known = re.fullmatch(r"[0-9A-Za-z]{2,16}", build)
    return SystemVersion(tuple(int(part) for part in version.split(".")), build if known else "")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings from ``sysctl``; None or empty means unknown. Bytes and seconds."""

    model: str = ""
    chip: str = ""
    memory_bytes: int | None = None
    page_bytes: int | None = None
    booted_at: int | None = None
    """Seconds since the Unix epoch, by the machine's clock."""
    wired_limit_bytes: int | None = None
    """0: the system's default."""
    swap_used_bytes: int | None = None
    swap_total_bytes: int | None = None
    rdma_driver: str = ""
    """Build date of the RDMA driver; empty if there is none or it is unknown."""


_MIB = 2**20
_SWAP_UNITS = {"K": 2**10, "M": _MIB, "G": 2**30}


def settings(result: ToolSaid) -> Settings | Unknown:
    """Parse ``sysctl NAME…``, which prints the known names and fails if one is unknown."""
    if result.stdout and not result.stdout.endswith("\n"):
        return Unknown("its output ends in the middle of a line")
    fields = keyed(result.stdout)
    limit = number(fields.get("iogpu.wired_limit_mb", ""), r"^(?:[0-9]+ -> )?([0-9]+)$")
    found = Settings(
        model=_word(fields.get("hw.model", "")),
        chip=_word(fields.get("machdep.cpu.brand_string", "")),
        memory_bytes=number(fields.get("hw.memsize", ""), r"^([0-9]+)$"),
        page_bytes=number(fields.get("hw.pagesize", ""), r"^([0-9]+)$"),
        booted_at=number(result.stdout, r"^(?:kern\.boottime: )?\{ sec = ([0-9]+), usec = [0-9]+ \}"),
        wired_limit_bytes=None if limit is None else limit * _MIB,
        swap_used_bytes=_swap(fields.get("vm.swapusage", ""), "used"),
        swap_total_bytes=_swap(fields.get("vm.swapusage", ""), "total"),
        rdma_driver=_word(fields.get("debug.rdma.version", "")),
    )
    if found == Settings():
        return failed(result) if result.code else unlike(result.stdout, "lines as 'hw.memsize: 34359738368'")
    return found


def _word(text: str) -> str:
    """Return a plausible name of a machine; else empty."""
    return text if re.fullmatch(r"[0-9A-Za-z ,.:_()@-]{1,64}", text) else ""


def _swap(text: str, kind: str) -> int | None:
    found = re.search(rf"\b{kind} = ([0-9]{{1,12}})\.([0-9]{{2}})([KMG])\b", text)
    return None if found is None else int(found[1] + found[2]) * _SWAP_UNITS[found[3]] // 100


@dataclass(frozen=True, slots=True)
class Pages:
    """Memory from ``vm_stat``, in bytes."""

    free_bytes: int
    wired_bytes: int
    compressed_bytes: int | None = None


@of_complete
def pages(text: str) -> Pages | Unknown:
    """Parse ``vm_stat``: the page size is in the first line, and differs between Macs."""
    size = number(text, r"\(page size of ([0-9]+) bytes\)")
    free, wired, compressed = (
        number(text, rf"^Pages {kind}:\s+([0-9]+)\.$")
        for kind in ("free", "wired down", "occupied by compressor")
    )
    if not size or free is None or wired is None:
        return unlike(text, "the size of a page, and free and wired pages")
    return Pages(size * free, size * wired, None if compressed is None else size * compressed)


@dataclass(frozen=True, slots=True)
class Disk:
    """Disk space, from ``df``."""

    total_bytes: int
    free_bytes: int


def disk(result: ToolSaid) -> Disk | Unknown:
    """Parse ``df -k HOME MODELS``: a header, and a row for each folder, whose first number is the size in KiB. The disk with
    less room counts: one takes swap and logs, the other takes weights. A folder that does not exist yet has no row."""
    one_missing = result.code == 1 and result.stderr.count(": No such file or directory\n") == 1
    text = complete(replace(result, code=0) if one_missing and result.stdout else result)
    if isinstance(text, Unknown):
        return text
    header, *rows = text.splitlines()
    found = [
        re.fullmatch(r".*?[ ]([0-9]{1,15}) +([0-9]{1,15}) +([0-9]{1,15}) +[0-9]{1,3}% .*", row)
        for row in rows
    ]
    disks = [Disk(int(row[1]) * 1024, int(row[3]) * 1024) for row in found if row]
    whole = len(disks) == len(found) == 2 - one_missing and all(
        each.free_bytes <= each.total_bytes for each in disks
    )
    if not re.search(r"\b1024-blocks\s+Used\s+Avail", header) or not whole:
        return unlike(text, "a header with '1024-blocks', and a row for each folder")
    return min(disks, key=lambda each: each.free_bytes)


SYSTEM_VERSION = Probe("system version", RunTool(("sw_vers",), 5.0), system_version, 600.0)
SETTINGS = Probe(
    "settings",
    RunTool(
        (
            "sysctl", "hw.model", "hw.memsize", "hw.pagesize", "machdep.cpu.brand_string", "kern.boottime",
            "iogpu.wired_limit_mb", "vm.swapusage", "debug.rdma.version",
        ),
        5.0,
    ),
    settings,
    30.0,
)  # fmt: skip
PAGES = Probe("pages", RunTool(("vm_stat",), 5.0), pages, 30.0)
DISK = Probe("disk", RunTool(("df", "-k", "{home}", "{models}"), 10.0), disk, 300.0)
