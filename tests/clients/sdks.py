"""Runs a library: the lines of its document first, then its program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reconciler.gateway.dialects.parameter_table import ROWS
from tests.e2e.cluster import Cluster

from .documents import blocks
from .installing import installed
from .outcome import Outcome
from .rows import JAVA, PYTHON, Client
from .scripts import SEEN, right
from .world import Door, give_back, take_away

PROGRAMS = Path(__file__).parent / "programs"
PARAMETERS = "parameters.json"
"""What our table of parameters has for the surface of a client."""
SECONDS_MAX = 180.0
EXPORTED = "answer", "client", "model", "SETTINGS"
"""What programs take from the lines of the document, where these have it."""


def run(client: Client, made: Cluster, folder: Path, door: Door) -> Outcome:
    """Run a client's features, with an empty home in ``folder``. For ``retry`` there is no group at first."""
    outcome = Outcome(client)
    command = _laid_out(client, door, folder)
    began = time.monotonic()
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=folder,
            env={**environment(folder), **door.environment()},
        )
    try:
        for told in _lines(process):
            if "ready" in told:
                _refuse_once(made, door, process)
                continue
            outcome.features[told["feature"]] = _wrong(client, told)
        process.wait(SECONDS_MAX)
    finally:
        process.kill()
        process.wait(10)
    outcome.seconds = time.monotonic() - began
    errors = (folder / "stderr").read_text(errors="replace")[-300:]
    for feature in client.features:
        outcome.features.setdefault(feature, f"the program ended before: {errors}")
    return outcome


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a client: a home of its own, and nothing that this one has."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb"}


def _laid_out(client: Client, door: Door, folder: Path) -> list[str]:
    """Write the lines of the document and the program. Return the command."""
    where = installed(client.kind, client.packages)
    environment(folder)
    known = [name for row in ROWS if client.surface in row.on for name in row.names]
    (folder / PARAMETERS).write_text(json.dumps(known))
    for block in blocks(client.name):
        text = block.at(door.base, door.key)
        if block.file:
            target = Path(block.file.replace("~", str(folder / "home")))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        elif block.language == "python":
            (folder / "setup.py").write_text(text)
        elif block.language == "java":
            (folder / "Setup.java").write_text(text)
        elif block.language == "js":
            names = [name for name in EXPORTED if f"const {name} =" in text]
            (folder / "setup.mjs").write_text(f"{text}\nexport {{ {', '.join(names)} }};\n")
    if client.kind == PYTHON:
        shutil.copy(PROGRAMS / "course.py", folder)
        shutil.copy(PROGRAMS / client.program, folder)
        return [str(where / "bin/python"), client.program]
    if client.kind == JAVA:
        shutil.copy(PROGRAMS / client.program, folder)
        subprocess.run(["javac", client.program, "Setup.java"], cwd=folder, check=True, timeout=SECONDS_MAX)
        return ["java", client.program.removesuffix(".java")]
    shutil.copy(PROGRAMS / "course.mjs", folder)
    shutil.copy(PROGRAMS / client.program, folder)
    (folder / "node_modules").symlink_to(where / "node_modules")
    return ["node", client.program]


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def _refuse_once(made: Cluster, door: Door, process: subprocess.Popen[str]) -> None:
    """Take the group away, let the client ask, and bring a group back once a request was refused."""
    take_away(made)
    before = door.failed()
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    made.wait("a request that is refused", lambda: door.failed() > before, 30.0, pause=0.05)
    give_back(made)


def _wrong(client: Client, told: dict[str, Any]) -> str:
    """Return what is wrong with what a client saw; empty where nothing is."""
    feature, expected = told["feature"], client.own.get(told["feature"])
    if "error" in told:
        return f"{told['error']}\n{told['trace']}"
    if told["seen"] == expected if feature in client.own else right(feature, told["seen"]):
        return ""
    seen, right_one = told["seen"], client.own.get(feature, SEEN.get(feature))
    if isinstance(seen, dict) and isinstance(right_one, dict):
        same = {name for name in seen.keys() & right_one.keys() if seen[name] == right_one[name]}
        seen, right_one = (_without(each, same) for each in (seen, right_one))
    return f"saw {seen!r} rather than {right_one!r}"


def _without(given: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}
