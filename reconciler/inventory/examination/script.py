"""Puts the script together, and writes it: ``python -m reconciler.inventory.examination.script FILE [--check]``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reconciler.doctor.preconditions import PRECONDITIONS, Precondition
from reconciler.inventory.probes.probe import Probe
from reconciler.inventory.probes.verbs import KERNEL_OBJECTS

from .probing import LEFT_OUT, RISK, RISKY, RUN
from .record import VERSION

BLOCKS = 512
"""The most output of a tool, in units of 512 bytes."""
TOO_LARGE = 128 + 25
"""Exit status of a tool that SIGXFSZ has ended."""
SECONDS_MAX = sum(probe.call.seconds for probe in RUN) + 60.0
"""The longest time of the script, with every tool at its time limit."""
PLAIN = (
    "active address admin alias apple applethunderboltrdmaprotectiondomain applethunderboltrdmaqueuepair approved"
    " autorestart autoselect available awdl bad base blocks bluetooth boot boottime brand bridge broadcast build"
    " buildversion bus but bytes capacity channel code com combined compressor config configuration connected could"
    " cpu current data debug default destination details device devices disabled disk disksleep domain down enable"
    " enabled enrolled enrollment error ethernet excluded exit exited expire false family fast ffff filevault find"
    " finish firewall flags found free full gateway gbps get gib gid gpu guid hardware hca heavy home host inactive"
    " included index inet inet6 interface internet iogpu ips item items jaccl jetsamevent jul kern kernel key killed"
    " lan last launchdaemon learning level library limit link local localhost loopback lowpowermode mac macbook mach"
    " machdep macos max mdm media member memory memsize metadata mini model multicast name needs net netif network"
    " never node nominal none not occupied off order page pages pagesize panic pid port power prefixlen pressure pro"
    " product productversion profiles promisc protocol rdma receptacle reconciler request residency restarted root"
    " routing runner running runs scheduled sec secured server service services set signal simplex size sleep"
    " sleepdisabled smart spawn speed spthunderboltdatatype standby state statistics status string studio supported"
    " swap swapusage system tables tag terminating the thunderbolt title total true type ugsc ugscg ugscig uhlwiir ultra unknown"
    " unlimited usb usec used user users uuid version vlan volume volumes was width wired working yes"
)
"""Words that tools print anyway. A user or a machine with such a name cannot be recognised, and the name is not
replaced."""
_IDLE = "ProtectionDomain = (0|<no such class>)"
"""The output of the probe of kernel objects while nothing uses the RDMA driver."""
_HERE = Path(__file__).parent
_WORDS = {"{home}": '"$HOME"', "{models}": '"$HOME"/.reconciler/models'}


def script() -> str:
    parts = {
        "@PROBES@": "".join(_probes()).rstrip("\n"),
        "@PRECONDITIONS@": "".join(map(_precondition, PRECONDITIONS)).rstrip("\n"),
        "@SCRUB@": scrubber().rstrip("\n"),
        "@VERSION@": str(VERSION),
        "@BLOCKS@": str(BLOCKS),
        "@TOO_LARGE@": str(TOO_LARGE),
    }
    text = (_HERE / "examine.sh").read_text(encoding="utf-8")
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


def scrubber() -> str:
    """Return the program for ``awk`` that replaces identifying text."""
    return (_HERE / "scrub.awk").read_text(encoding="utf-8").replace("@PLAIN@", PLAIN)


def command(probe: Probe[Any]) -> str:
    """Return a probe's command for people, without names of users."""
    words = [f'"{word}"' if " " in word else word for word in probe.call.argv]
    return " ".join(["sudo -n"] * probe.call.as_root + words)


def _probes() -> Iterator[str]:
    for probe in RUN:
        if probe.name in LEFT_OUT:
            yield f"    {_left_out(probe, LEFT_OUT[probe.name])}\n"
        elif probe is RISKY:
            idle = f"printed {shlex.quote(KERNEL_OBJECTS.name)} {shlex.quote(_IDLE)}"
            yield f'    if [ -n "$verbs" ] || {{ [ "$ending" != late ] && {idle}; }}; then\n'
            yield f"        {_run(probe)}\n    else\n        {_left_out(probe, RISK)}\n    fi\n"
        else:
            yield f"    {_run(probe)}\n"


def _run(probe: Probe[Any]) -> str:
    words = " ".join(_WORDS.get(word) or shlex.quote(word) for word in probe.call.argv)
    for mark, value in _WORDS.items():
        words = words.replace(f"'{mark}/", f"{value}'/")  # shlex.quote has quoted the whole word
    return f"probe {shlex.quote(probe.name)} {probe.call.seconds:g} {shlex.quote(command(probe))} {words}"


def _left_out(probe: Probe[Any], why: str) -> str:
    return f"left_out {shlex.quote(probe.name)} {shlex.quote(command(probe))} {shlex.quote(why)}"


def _precondition(row: Precondition) -> str:
    lines, word = [], "if"
    for match in row.matches:
        lines.append(
            f"    {word} printed {shlex.quote(match.probe)} {shlex.quote(match.line)}; then verdict={match.verdict}\n"
        )
        word = "elif"
    lines.append("    else verdict='see file'; fi\n" if row.matches else "    verdict='see file'\n")
    texts = (
        each.format(node="this Mac", port="enX", python="PYTHON")
        for each in (row.name, row.wanted, row.remedy, row.shows)
    )
    name, wanted, remedy, shows = map(shlex.quote, texts)
    return f'{"".join(lines)}    row {name} "$verdict" {wanted} \\\n        {remedy} \\\n        {shows}\n'


def main(arguments: list[str]) -> int:
    """Return the exit status: 1 if ``--check`` finds something to write."""
    files = [Path(argument) for argument in arguments if argument != "--check"]
    if len(files) != 1:
        sys.stderr.write("usage: python -m reconciler.inventory.examination.script FILE [--check]\n")
        return 2
    (file,) = files
    if "--check" not in arguments:
        file.write_text(script(), encoding="utf-8")
        file.chmod(0o755)
        return 0
    if file.exists() and file.read_text(encoding="utf-8") == script():
        return 0
    sys.stdout.write(f"{file} is outdated: write it with python -m {__spec__.name} {file}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
