"""Adds what a real Mac's tools printed as cases: ``python -m tests.inventory.probes.take FILE NAME [TOOL...]``.

FILE is that of ``reconciler node examine`` or its script. Each probe gives a case ``cases/TOOL/NAME.txt``, and beside it
``NAME.yaml`` with what is read in it today. Read those before you keep them: a case says what is to be read.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from reconciler.inventory.examination.record import Record, parse
from reconciler.inventory.probes.probe import Unknown
from reconciler.wire.tools import Ending

from .cases import BY_TOOL, FOLDER, plain


def take(record: Record, name: str, origin: str, folder: Path, tools: Collection[str] = ()) -> Iterator[Path]:
    """Write the cases of these tools, or of all; yield their outputs. One that is there is left as it is."""
    for tool, probe in BY_TOOL.items():
        said = record.said.get(probe.name)
        path = folder / tool / f"{name}.txt"
        if said is None or said.ending != Ending.ENDED or (tools and tool not in tools) or path.exists():
            continue
        read = probe.read(said)
        sample: dict[str, Any] = {"from": origin}
        if said.code:
            sample["status"] = said.code
        if said.stderr:
            sample["stderr"] = said.stderr
        key, value = ("unknown", read.reason) if isinstance(read, Unknown) else ("facts", plain(read))
        path.parent.mkdir(exist_ok=True)
        path.write_text(said.stdout)
        path.with_suffix(".yaml").write_text(
            yaml.safe_dump({**sample, key: value}, sort_keys=False, allow_unicode=True)
        )
        yield path


def main(arguments: list[str]) -> int:
    """Return the exit status."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python -m tests.inventory.probes.take FILE NAME [TOOL...]\n")
        return 2
    file, name, *tools = arguments
    record = parse(Path(file).read_text(encoding="utf-8"), file)
    unknown = set(tools) - set(BY_TOOL)
    if unknown:
        sys.stderr.write(f"{', '.join(sorted(unknown))}: expected one of {', '.join(BY_TOOL)}\n")
        return 2
    for path in take(record, name, f"an examination of {record.at[:10]}, {record.system}", FOLDER, tools):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
