"""Versions of MLX in the interpreter that ranks are started with, asked in the background.

The interpreter is another than the agent's own, and importing nothing but metadata it still takes a
second on a cold disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
from typing import Callable, Dict

ANSWER_SECONDS = 60.0
_BYTES_MAX = 64 * 1024
_log = logging.getLogger("agent")

_QUESTION = """
import importlib.metadata, json
found = {}
for name in ("mlx", "mlx-lm"):
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


class RuntimeProbe:
    """One question to an interpreter; ``on_answer`` is called once, with an empty answer when it fails."""

    def __init__(self, python: str, on_answer: Callable[[Dict[str, str]], None]) -> None:
        self._python = python
        self._on_answer = on_answer
        self._said = b""

    def start(self) -> None:
        """Ask; the answer comes through the running event loop."""
        try:
            self._process = subprocess.Popen(
                [self._python, "-I", "-c", _QUESTION],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            _log.warning("the runtime's interpreter %s cannot be started: %s", self._python, error)
            self._on_answer({})
            return
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        loop = asyncio.get_event_loop()
        loop.add_reader(self._pipe, self._read)
        self._deadline = loop.call_later(ANSWER_SECONDS, self._process.kill)

    def _read(self) -> None:
        chunk = os.read(self._pipe.fileno(), _BYTES_MAX)
        if chunk and len(self._said) < _BYTES_MAX:
            self._said += chunk
            return
        self._deadline.cancel()
        asyncio.get_event_loop().remove_reader(self._pipe)
        self._pipe.close()
        self._process.kill()
        self._process.wait()
        self._on_answer(_parsed(self._said))


def _parsed(said: bytes) -> Dict[str, str]:
    try:
        versions = json.loads(said)
    except ValueError:
        return {}
    return (
        {str(name): str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}
    )
