"""RDMA: whether it is on, its devices, their ports, and the kernel objects that processes hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reconciler.wire.tools import RunTool, ToolSaid

from . import network, thunderbolt
from .probe import Probe, Unknown, complete, number, of_complete, unambiguous, unlike

_NO_DEVICES = "No IB devices found"


@of_complete
def rdma_enabled(text: str) -> bool | Unknown:
    """Parse ``rdma_ctl status``: one word."""
    word = text.strip().lower()
    return {"enabled": True, "disabled": False}.get(word, unlike(text, "'enabled' or 'disabled'"))


def rdma_set(result: ToolSaid) -> bool | Unknown:
    """Parse ``nvram rdma-enable``, the setting from Recovery. The tool fails if there is none."""
    if result.code and "data was not found" in result.stderr:
        return False
    text = complete(result)
    if isinstance(text, Unknown):
        return text
    found = re.fullmatch(r"rdma-enable\t([01])", text.rstrip("\n"))
    return found[1] == "1" if found else unlike(text, "'rdma-enable' with 0 or 1")


@dataclass(frozen=True, slots=True)
class Device:
    """An RDMA device, such as ``rdma_en2``."""

    name: str
    guid: str
    """Empty if unknown."""


@of_complete
def devices(text: str) -> tuple[Device, ...] | Unknown:
    """Parse ``ibv_devices``: a header, a rule and unordered rows. With RDMA disabled there are no rows."""
    lines = [line.split() for line in text.split("\n")]
    if ["device", "node", "GUID"] not in lines:
        return unlike(text, "a header 'device node GUID'")
    rows = (line for line in lines if line and line[0].startswith("rdma_"))
    return tuple(Device(row[0], _guid(row[1:])) for row in rows)


def _guid(words: list[str]) -> str:
    return words[0] if len(words) == 1 and re.fullmatch(r"[0-9A-Fa-f]{1,16}", words[0]) else ""


@dataclass(frozen=True, slots=True)
class VerbsPort:
    """The port of an RDMA device. None means unknown."""

    device: str
    up: bool | None = None
    """True if it is ``PORT_ACTIVE``."""
    gids: tuple[str, ...] | None = None
    """Its GIDs; only with ``-v``."""
    queue_pairs_max: int | None = None
    mapped_index: int | None = None
    """Index in the table of the first GID that stands for an IPv4 address; None also if there is none."""
    gbps: int | None = None
    """Speed of its link; only with ``-v``, and while it is up: a port that is down prints its highest speed."""

    @property
    def mapped_gid(self) -> bool | None:
        """Return whether one of the GIDs stands for an IPv4 address."""
        return None if self.gids is None else any(_is_mapped(gid) for gid in self.gids)


def _is_mapped(gid: str) -> bool:
    return gid.startswith("::ffff:")


_SPEEDS = {"4X (2)": 40, "8X (4)": 80}
"""The speed of each width that was seen on Macs, of lanes with 10 Gb/s. All others are unknown."""
_STATES = {"PORT_ACTIVE": True, "PORT_DOWN": False, "PORT_INIT": False, "PORT_ARMED": False}


def verbs_ports(result: ToolSaid) -> tuple[VerbsPort, ...] | Unknown:
    """Parse ``ibv_devinfo [-v]``: a block for each device, with tabs or spaces before the values."""
    if _NO_DEVICES in result.stdout or _NO_DEVICES in result.stderr:
        return ()
    text = complete(result)
    if isinstance(text, Unknown):
        return text
    blocks = re.split(r"^hca_id:", text, flags=re.MULTILINE)[1:]
    named = (port for port in map(_verbs_port, blocks) if port.device)
    found = unambiguous(named, lambda port: port.device, VerbsPort)
    return found or unlike(text, "a block 'hca_id:' for each device")


def _verbs_port(block: str) -> VerbsPort:
    name, _, rest = block.partition("\n")
    state = re.search(r"^\s*state:\s*(PORT_[A-Z]+)\b", rest, re.MULTILINE)
    rows = re.findall(r"^\s*GID\[ *([0-9]{1,4})\]:[ \t]*([0-9A-Fa-f:.]{2,45})", rest, re.MULTILINE)
    gids = [(int(index), gid.lower()) for index, gid in rows]
    up = _STATES.get(state[1]) if state else None
    return VerbsPort(
        name.strip(),
        up,
        tuple(gid for _, gid in gids) or None,
        number(rest, r"^\s*max_qp:\s*([0-9]+)$"),
        next((index for index, gid in gids if _is_mapped(gid)), None),
        _gbps(rest) if up else None,
    )


def _gbps(block: str) -> int | None:
    """Return the speed of a link by the number of its lanes and the speed of each; None unless both are as on Macs."""
    width = re.findall(r"^\s*active_width:\s*(.*?)\s*$", block, re.MULTILINE)
    speed = re.findall(r"^\s*active_speed:\s*(.*?)\s*$", block, re.MULTILINE)
    return _SPEEDS.get(width[0]) if len(width) == 1 and speed == ["10.0 Gbps (4)"] else None


@dataclass(frozen=True, slots=True)
class KernelObjects:
    """RDMA driver objects that all processes of the machine hold."""

    protection_domains: int
    queue_pairs: int | None = None


_DOMAINS, _PAIRS = "AppleThunderboltRDMAProtectionDomain", "AppleThunderboltRDMAQueuePair"


@of_complete
def kernel_objects(text: str) -> KernelObjects | Unknown:
    """Parse ``ioclasscount CLASS…``: ``CLASS = n``, separated by commas. A class without a number is not loaded."""
    domains, pairs = (number(text, rf"\b{kind}\s*=\s*([0-9]+)(?=\s|,|$)") for kind in (_DOMAINS, _PAIRS))
    return unlike(text, f"'{_DOMAINS} =' and a number") if domains is None else KernelObjects(domains, pairs)


RDMA_ENABLED = Probe("RDMA", RunTool(("rdma_ctl", "status"), 5.0), rdma_enabled, 60.0)
RDMA_SET = Probe("RDMA setting", RunTool(("nvram", "rdma-enable"), 5.0), rdma_set, 600.0)
KERNEL_OBJECTS = Probe(
    "kernel objects", RunTool(("ioclasscount", _DOMAINS, _PAIRS), 5.0), kernel_objects, 30.0
)
DRIVER = ((network.INTERFACES, thunderbolt.RECEPTACLES, RDMA_ENABLED), 30.0)
"""Probes that outdate the RDMA driver's facts, and the shortest time between two runs of its tools."""
DEVICES = Probe("RDMA devices", RunTool(("ibv_devices",), 5.0), devices, 300.0, *DRIVER)
VERBS_PORTS = Probe("RDMA ports", RunTool(("ibv_devinfo", "-v"), 5.0), verbs_ports, 300.0, *DRIVER)
