"""Scrubs texts as the script does, and compares what is read in them apart from what is scrubbed."""

from __future__ import annotations

import ipaddress
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from reconciler.inventory.examination.record import Record, parse
from reconciler.inventory.examination.script import scrubber
from reconciler.inventory.probes import management, network, thunderbolt, verbs
from reconciler.inventory.probes.probe import Probe, Unknown
from reconciler.wire.tools import Ending, ToolSaid
from tests.inventory.probes.cases import plain

AWK = "awk"


def scrub(
    said: Mapping[Probe[Any], ToolSaid], names: Iterable[tuple[str, str]] = (), awk: str = AWK
) -> Record:
    """Return what the script would write of this; ``names`` are pairs of a word and the name that it replaces."""
    text = "reconciler examination 1\nsystem: Darwin\n\n" + "".join(written(*each) for each in said.items())
    with tempfile.TemporaryDirectory() as folder:
        files = {
            "scrub.awk": scrubber(),
            "raw": text,
            "names": "".join(f"{word}\t{name}\n" for word, name in names),
        }
        for name, content in files.items():
            (Path(folder) / name).write_text(content)
        command = [*awk.split(), "-f", "scrub.awk", "names", "raw"]
        done = subprocess.run(
            command,
            cwd=folder,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return parse(done.stdout.decode(), "scrubbed")


def written(probe: Probe[Any], said: ToolSaid) -> str:
    """A probe as the script writes it."""
    lines = [f"probe: {probe.name}", "command: x", f"ending: {said.ending}", f"status: {said.code or 0}"]
    for stream, text in (("out", said.stdout), ("err", said.stderr)):
        whole = text.removesuffix("\n")
        lines += [f"{stream}|{line}" for line in whole.split("\n")] if text else []
        lines += [f"{stream}: its last line is not ended"] if text and text == whole else []
    return "\n".join(lines) + "\n\n"


def ended(stdout: str) -> ToolSaid:
    return ToolSaid(Ending.ENDED, 0, stdout)


# --- what may differ ---------------------------------------------------------------------------------


def facts(probe: Probe[Any], said: ToolSaid) -> Any:
    """What is read, with each scrubbed value replaced by the place at which it appears first."""
    read = probe.read(said)
    if isinstance(read, Unknown):
        return "unknown"
    blank = _BLANK.get(probe.name)
    return plain(read) if blank is None else blank(plain(read))


def _each(*fields: str) -> Callable[[Any], Any]:
    """Blank these fields, at any depth, but tell equal ones from others."""

    def blank(value: Any) -> Any:
        seen: dict[str, int] = {"": -1}

        def walk(item: Any) -> Any:
            if isinstance(item, list):
                return [walk(each) for each in item]
            if not isinstance(item, dict):
                return item
            return {
                name: seen.setdefault(each, len(seen))
                if name in fields and isinstance(each, str)
                else walk(each)
                for name, each in item.items()
            }

        return walk(value)

    return blank


def _gids(ports: Any) -> Any:
    return [
        {**port, "gids": port["gids"] and [gid.startswith("::ffff:") for gid in port["gids"]]}
        for port in ports
    ]


def _routes(routes: Any) -> Any:
    networks = [
        (
            route["network"] if private(route["network"]) else route["network"].partition("/")[2],
            route["interface"],
        )
        for route in routes["networks"]
    ]
    return networks, routes["default"]


def _addresses(interfaces: Any) -> Any:
    def shown(address: str) -> str:
        return address if private(address) else "public"

    return [
        {**each, "addresses": each["addresses"] and [shown(one) for one in each["addresses"]]}
        for each in interfaces
    ]


def _reports(reports: Any) -> Any:
    return {kind: len(names) for kind, names in reports.items()}


def private(text: str | None) -> bool:
    """Whether an address or network tells nobody's: what the scrubber leaves."""
    if not text:
        return True
    inside = ipaddress.ip_network(text.partition("/")[0])
    benchmark = ipaddress.ip_network("198.18.0.0/15")
    return not inside.is_global and not inside.subnet_of(benchmark)  # type: ignore[arg-type]


_BLANK: dict[str, Callable[[Any], Any]] = {
    verbs.DEVICES.name: _each("guid"),
    verbs.VERBS_PORTS.name: _gids,
    thunderbolt.RECEPTACLES.name: _each("domain"),
    network.SERVICES.name: _each("name", "port"),
    network.HARDWARE_PORTS.name: _each("name"),
    network.ROUTES.name: _routes,
    network.INTERFACES.name: _addresses,
    management.SYSTEM_REPORTS.name: _reports,
    management.USER_REPORTS.name: _reports,
}
