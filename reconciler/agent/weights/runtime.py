"""Asks the ranks' interpreter for its versions, in the background.

It differs from the agent's own interpreter, and takes a second to answer from a cold disk, longer with mlx.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from reconciler.agent.system import process
from reconciler.wire.engines import ENGINES

ANSWER_SECONDS = 60.0
_BYTES_MAX = 64 * 1024
_log = logging.getLogger("agent")

_PACKAGES = sorted({name for each in ENGINES for name in each.packages})
_ROOMS = sorted({"fetcher", "wire", *(each.room for each in ENGINES)})
_QUESTION = f"""
import hashlib, importlib.metadata, importlib.util, json, pathlib
found = {{}}
for name in {_PACKAGES}:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
package = importlib.util.find_spec("reconciler")
sources = [
    path
    for place in (package.submodule_search_locations or () if package else ())
    for room in {_ROOMS}
    for path in sorted(pathlib.Path(place, room).rglob("*.py"))
]
if sources:
    code = b"".join(path.name.encode() + b"\\0" + path.read_bytes() + b"\\0" for path in sources)
    found["engine"] = hashlib.sha256(code).hexdigest()[:12]
print(json.dumps(found))
"""

OnAnswer = Callable[[Mapping[str, Any]], None]


class Question:
    """A program that prints one JSON object; ``on_answer`` is called once, with an empty one when it fails."""

    def __init__(self, command: Sequence[str], on_answer: OnAnswer, seconds: float = ANSWER_SECONDS) -> None:
        self._command = tuple(command)
        self._on_answer = on_answer
        self._seconds = seconds
        self._output = b""
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        """Ask; the answer comes through the running event loop."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            _log.warning("the runtime's interpreter %s cannot be started: %s", self._command[0], error)
            self._on_answer({})
            return
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        loop = asyncio.get_event_loop()
        loop.add_reader(self._pipe, self._read)
        self._deadline = loop.call_later(self._seconds, self._conclude)

    def withdraw(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._deadline.cancel()
            asyncio.get_event_loop().remove_reader(self._pipe)
            self._end()

    def _read(self) -> None:
        chunk = os.read(self._pipe.fileno(), _BYTES_MAX)
        if chunk and len(self._output) < _BYTES_MAX:
            self._output += chunk
        else:
            self._conclude()

    def _conclude(self) -> None:
        """Take the output so far, whether or not the program ends: the kernel may hold it."""
        self._deadline.cancel()
        asyncio.get_event_loop().remove_reader(self._pipe)
        self._end()
        self._on_answer(_parsed(self._output))

    def _end(self) -> None:
        assert self._process is not None
        self._pipe.close()
        process.end(self._process)


def versions(python: str, on_answer: Callable[[Dict[str, str]], None]) -> Question:
    """Ask an interpreter for its versions of the engines and the ranks' code; an empty answer if there are none."""
    return Question(
        (python, "-I", "-c", _QUESTION),
        lambda found: on_answer({name: str(version) for name, version in found.items()}),
    )


def _parsed(output: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(output)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
