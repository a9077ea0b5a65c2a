"""This machine as a Mac: what runs its tools is told what a Mac's would say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reconciler.agent.system import operating_system

NAMES = {"-s": "Darwin", "-n": "studio-1.local", "-r": "25.2.0", "-m": "arm64"}


@contextmanager
def mac(folder: Path, tools: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, ``tools`` say what they are given here, and ``uname`` says that it is a Mac."""
    said = {f"uname {option}": name for option, name in NAMES.items()} | dict(tools)
    by_name: dict[str, str] = {}
    for number, (command, output) in enumerate(said.items()):
        name, _, arguments = command.partition(" ")
        (folder / f"said.{number}").write_text(output)
        pattern = f"'{arguments}'*" if arguments else "*"
        by_name[name] = by_name.get(name, "") + f"{pattern}) exec /bin/cat {folder}/said.{number} ;;\n"
    for name, cases in by_name.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) exit 1 ;;\nesac\n')
        path.chmod(0o755)
    operating_system.use((str(folder),))
    try:
        yield
    finally:
        operating_system.use(operating_system.FOLDERS)
