"""What must hold of a Mac before it joins a cluster: one table, in the order of risk, for ``node examine`` and its script.

What is wrong and what to do is said by the rules of healing and by the doctor's checks, which judge the same facts
later; here is their order, what must be known, and how to see that a remedy worked. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.evidence import Evidence
from reconciler.planning.diagnosis.rules import LOCAL_NETWORK, TABLE, Row
from reconciler.state import Contact, MachineFacts, NodeName, NodeObservation, PortFacts

from . import checks
from .checks import CHECKS, FILEVAULT_OFF, Check, Machine


class Verdict(StrEnum):
    """The verdict on one precondition."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How a machine was reached, and what of it is no fact of the machine in operation."""

    over_ssh: bool = False
    terminal: str = ""
    """``TERM_PROGRAM``; empty if unknown."""
    remote_login: bool | None = None
    """Whether its SSH server is on."""


@dataclass(frozen=True, slots=True)
class Examined:
    """One machine as it was examined."""

    machine: Machine
    circumstances: Circumstances = Circumstances()

    @classmethod
    def of(cls, name: str, facts: MachineFacts, circumstances: Circumstances) -> Examined:
        """Return a machine of which nothing but its facts is known; any Mac at the end of a cable may become a peer."""
        ports = tuple(replace(port, peer=port.peer or _anybody(port)) for port in facts.ports)
        seen = NodeObservation(NodeName(name), Contact.REACHED, 0.0, facts=replace(facts, ports=ports))
        return cls(Machine(seen, None, rdma=True), circumstances)

    @property
    def name(self) -> NodeName:
        return self.machine.seen.name

    @property
    def facts(self) -> MachineFacts:
        return self.machine.facts

    @property
    def cabled(self) -> tuple[PortFacts, ...]:
        """Return the ports whose cables lead to another Mac."""
        return tuple(port for port in self.facts.ports if port.connected and port.peer)


def _anybody(port: PortFacts) -> tuple[NodeName, int] | None:
    there = port.connected and (port.peer_domain or port.peer_model)
    return (NodeName(port.peer_model or "a Mac"), 0) if there else None


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong, or not known to be right, and what to do."""

    text: str
    steps: str
    verdict: Verdict = Verdict.FAIL


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a probe's output, as an extended regular expression, that decides without further reading."""

    probe: str
    line: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Precondition:
    """One row."""

    name: str
    wanted: str
    """What must hold, as a clause."""
    probes: tuple[str, ...]
    """The probes that tell; the first one with a problem is why it is unknown."""
    known: Callable[[Examined], object | None]
    """Return None where the facts do not tell."""
    flaw: Callable[[Examined], Flaw | None]
    remedy: str
    """What to do, with ``{node}`` and ``{port}``, for those who have no facts."""
    shows: str
    """A command on the machine that shows that the remedy worked, and what it then prints."""
    absent: Callable[[Examined], str] = lambda examined: ""
    """Return why it does not apply; empty if it does."""
    matches: tuple[Match, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one precondition of one machine."""

    precondition: Precondition
    verdict: Verdict
    text: str
    steps: str = ""
    """What to do; empty if there is nothing, or it is not known."""


def judge(examined: Examined) -> tuple[Judgement, ...]:
    """Return the verdicts on all preconditions, in their order."""
    return tuple(_judged(examined, precondition) for precondition in PRECONDITIONS)


def _judged(examined: Examined, row: Precondition) -> Judgement:
    flaw, absent = row.flaw(examined), row.absent(examined)
    if absent:
        return Judgement(row, Verdict.NOT_APPLICABLE, absent)
    if flaw is not None:
        return Judgement(row, flaw.verdict, flaw.text, flaw.steps)
    if row.known(examined) is None:
        why = dict(examined.facts.unknown)
        reason = next((why[probe] for probe in row.probes if probe in why), "the file does not tell")
        return Judgement(row, Verdict.UNKNOWN, reason)
    return Judgement(row, Verdict.PASS, row.wanted)


# --- several machines --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Versions:
    """What must be equal on all machines of a group over RDMA; empty parts are unknown."""

    name: str
    macos: str
    """Version and build, such as ``26.3 (25D125)``."""
    driver: str
    """Build date of the RDMA driver."""


def compare(machines: Sequence[Versions]) -> tuple[tuple[str, Verdict, str, str], ...]:
    """Return name, verdict, text and steps for whatever must be equal on all of several machines."""
    steps = SAME_SYSTEM.format(node=" and ".join(each.name for each in machines))
    macos, drivers = ([(each.name, getattr(each, part)) for each in machines] for part in ("macos", "driver"))
    return (_equal("same macOS", macos, steps), _equal("same driver", drivers, steps))


def _equal(what: str, values: Sequence[tuple[str, str]], steps: str) -> tuple[str, Verdict, str, str]:
    text = ", ".join(f"{name}: {value or 'unknown'}" for name, value in values)
    if len({value for _, value in values if value}) > 1:
        return what, Verdict.FAIL, text, steps
    return what, Verdict.PASS if all(value for _, value in values) else Verdict.UNKNOWN, text, ""


# --- the table ---------------------------------------------------------------------------------------


def _row(detector: detectors.Detector) -> Row:
    return next(row for row in TABLE if row.seen is detector)


def _check(seen: Callable[[Machine], str]) -> Check:
    return next(check for check in CHECKS if check.seen is seen)


def _by_row(*rows: Row) -> Callable[[Examined], Flaw | None]:
    """Judge by the first of these rows that detects something."""

    def flaw(examined: Examined) -> Flaw | None:
        evidence = Evidence((examined.machine.seen,), verbs=True)
        found = ((row, seen) for row in rows if (seen := row.seen(evidence)))
        return next((Flaw(seen.text, row.steps(seen, "")) for row, seen in found), None)

    return flaw


def _by_check(check: Check) -> Callable[[Examined], Flaw | None]:
    def flaw(examined: Examined) -> Flaw | None:
        seen = check.seen(examined.machine)
        return Flaw(seen, check.steps.format(node=examined.name, python="PYTHON")) if seen else None

    return flaw


def _remote_login(examined: Examined) -> Flaw | None:
    off = not examined.circumstances.over_ssh and examined.circumstances.remote_login is False
    return (
        Flaw(f"Remote Login is off on {examined.name}", REMOTE_LOGIN.format(node=examined.name))
        if off
        else None
    )


def _filevault(examined: Examined) -> Flaw | None:
    if not examined.facts.filevault:
        return None
    return Flaw(
        f"FileVault is on: after each restart {examined.name} waits for a password",
        FILEVAULT.format(node=examined.name),
    )


def _terminal(examined: Examined) -> Flaw | None:
    terminal = examined.circumstances.terminal
    if not terminal or terminal == APPLE_TERMINAL:
        return None
    return Flaw(
        f"whether macOS lets programs of {terminal} use the local network", LOCAL_NETWORK, Verdict.UNKNOWN
    )


def _cable(examined: Examined) -> Flaw | None:
    slow = _by_row(_row(detectors.slow_link))(examined)
    return slow or _by_check(_check(checks.behind_dock))(examined)


def _no_cable(examined: Examined) -> str:
    return "" if examined.cabled or not examined.facts.ports else "no cable leads to another Mac"


def _no_gid(examined: Examined) -> str:
    if examined.facts.rdma_enabled is False:
        return "there is none while RDMA is off"
    mapped = {port.mapped_gid for port in examined.cabled}
    return _no_cable(examined) or ("no port has an IPv4-mapped GID" if mapped == {False} else "")


def _of_ports(*facts: Callable[[PortFacts], object | None]) -> Callable[[Examined], object | None]:
    """Return whether these facts are known of every port with a cable to another Mac."""

    def known(examined: Examined) -> object | None:
        ports = examined.cabled
        return True if ports and all(fact(port) is not None for port in ports for fact in facts) else None

    return known


APPLE_TERMINAL = "Apple_Terminal"
"""``TERM_PROGRAM`` in Terminal.app."""
REMOTE_LOGIN = "on {node}: System Settings, General, Sharing: Remote Login on, for the user that the controller logs in as"
FILEVAULT = (
    FILEVAULT_OFF
    + "; or leave it on, and after each restart type: ssh USER@ADDRESS, and the password of that user"
)
SAME_SYSTEM = _row(detectors.old_system).person
CIRCUMSTANCES = "circumstances"
"""Not a probe: how the machine was reached."""

_PORTS = ("Thunderbolt", "hardware ports", "interfaces")
_PASS, _FAIL = Verdict.PASS, Verdict.FAIL

PRECONDITIONS: tuple[Precondition, ...] = (
    Precondition(
        "RDMA", "RDMA is on", ("RDMA", "RDMA setting"),
        lambda examined: examined.facts.rdma_enabled,
        _by_row(_row(detectors.no_thunderbolt5), _row(detectors.rdma_disabled)),
        _row(detectors.rdma_disabled).person, "`rdma_ctl status` prints: enabled",
        matches=(Match("RDMA", "^enabled$", _PASS), Match("RDMA", "^disabled$", _FAIL)),
    ),
    Precondition(
        "Remote Login", "its SSH server is on", ("Remote Login",),
        lambda examined: examined.circumstances.over_ssh or examined.circumstances.remote_login, _remote_login,
        REMOTE_LOGIN, "`ssh USER@ADDRESS true`, on the controller's machine, ends without an error",
        matches=(
            Match(CIRCUMSTANCES, "^reached: ssh$", _PASS),
            Match("Remote Login", "Could not find service", _FAIL),
        ),
    ),
    Precondition(
        "FileVault", "FileVault is off", ("FileVault",),
        lambda examined: examined.facts.filevault, _filevault, FILEVAULT,
        "`fdesetup status` prints: FileVault is Off.",
        matches=(
            Match("FileVault", r"^FileVault is Off\.$", _PASS), Match("FileVault", r"^FileVault is On\.$", _FAIL),
        ),
    ),
    Precondition(
        "updates", "macOS is updated by people only", ("updates",),
        lambda examined: examined.facts.updates_itself, _by_check(_check(checks.updates_itself)),
        _check(checks.updates_itself).steps,
        "`defaults read /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates` prints: 0",
        matches=(Match("updates", "^0$", _PASS), Match("updates", "^1$", _FAIL)),
    ),
    Precondition(
        "sleep", "it never falls asleep", ("power settings",),
        lambda examined: examined.facts.sleeps, _by_check(_check(checks.falls_asleep)),
        _check(checks.falls_asleep).steps, "`pmset -g` prints: sleep 0",
        matches=(
            Match("power settings", "^ ?SleepDisabled[[:blank:]]+1([[:blank:]]|$)", _PASS),
            Match("power settings", "^ ?sleep[[:blank:]]+0([[:blank:]]|$)", _PASS),
            Match("power settings", "^ ?sleep[[:blank:]]+[1-9]", _FAIL),
        ),
    ),
    Precondition(
        "organisation", "nobody else restarts it", ("enrolment",),
        lambda examined: examined.facts.managed, _by_check(_check(checks.managed)), _check(checks.managed).steps,
        "`profiles status -type enrollment` prints: MDM enrollment: No",
        matches=(
            Match("enrolment", "^MDM enrollment: No$", _PASS), Match("enrolment", "^MDM enrollment: Yes", _FAIL),
        ),
    ),
    Precondition(
        "firewall", "the application firewall is off", ("firewall",),
        lambda examined: examined.facts.firewall, _by_check(_check(checks.firewall)),
        _check(checks.firewall).steps,
        "`/usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate` prints: State = 0",
        matches=(
            Match("firewall", r"^Firewall is .*[(]State = 0[)]", _PASS),
            Match("firewall", r"^Firewall is .*[(]State = [12][)]", _FAIL),
        ),
    ),
    Precondition(
        "terminal", "its programs may use the local network", (CIRCUMSTANCES,),
        lambda examined: examined.circumstances.terminal or None, _terminal, LOCAL_NETWORK,
        "`echo $TERM_PROGRAM`, where the controller is started, prints: Apple_Terminal",
        lambda examined: "it was reached by SSH, which may" if examined.circumstances.over_ssh else "",
        matches=(
            Match(CIRCUMSTANCES, "^reached: ssh$", Verdict.NOT_APPLICABLE),
            Match(CIRCUMSTANCES, f"^terminal: {APPLE_TERMINAL}$", _PASS),
        ),
    ),
    Precondition(
        "cable", "each cable to another Mac is direct and has 80 Gb/s", _PORTS[:1],
        _of_ports(lambda port: port.gbps), _cable, _row(detectors.slow_link).person,
        "`system_profiler SPThunderboltDataType` prints for the port: Speed: 80 Gb/s, or 120", _no_cable,
    ),
    Precondition(
        "addresses", "each cabled port is outside of the bridge, with an address of its own", _PORTS,
        _of_ports(lambda port: port.interface or None, lambda port: port.bridged, lambda port: port.address),
        _by_row(_row(detectors.shared_port), _row(detectors.port_configuration)),
        _row(detectors.port_configuration).person,
        "`ifconfig {port}` prints: inet ADDRESS; the address of the other end answers `ping -c1`", _no_cable,
    ),
    Precondition(
        "GID index", "each IPv4-mapped GID is where MLX looks for it", ("RDMA ports", *_PORTS),
        _of_ports(lambda port: port.mapped_gid), _by_row(_row(detectors.gid_index)), _row(detectors.gid_index).person,
        "`ibv_devinfo -v`, while nothing uses RDMA, prints: GID[  1]: ::ffff:ADDRESS", _no_gid,
    ),
    Precondition(
        "disk", "its disk has room", ("disk",),
        lambda examined: examined.facts.disk_free_bytes, _by_check(_check(checks.disk_full)),
        _check(checks.disk_full).steps, "`df -h ~` prints more than 10Gi under Avail",
    ),
    Precondition(
        "macOS", "its macOS has RDMA over Thunderbolt: 26.2 or newer", ("system version",),
        lambda examined: examined.facts.version or None, _by_row(_row(detectors.old_system)), SAME_SYSTEM,
        "`sw_vers` prints: ProductVersion: 26.2, or newer",
        matches=(
            Match(
                "system version",
                r"^ProductVersion:[[:blank:]]*(26[.]([2-9]|[1-9][0-9])|2[7-9]|[3-9][0-9])([.][0-9.]*)?$", _PASS,
            ),
            Match("system version", "^ProductVersion:[[:blank:]]*[0-9]", _FAIL),
        ),
    ),
)  # fmt: skip
"""All preconditions: what costs a visit to the machine first, what may be set from afar later."""
