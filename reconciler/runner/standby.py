"""A rank before it is one: it has imported what every rank needs, which takes longest, and waits.

While it waits, it examines weights. It becomes a rank of these only; for others it begins again from nothing, in the same
process: nothing that it has read of one model is left where another one is served.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.wire.launch import CONFIG_VARIABLE, EXAMINE, RankEnd

from .process.config import read_config

_LINE_BYTES_MAX = 16 * 1024


def wait_for_config(descriptor: int, answers: int) -> str:
    """Wait for the path of the ``config.json`` of the rank that this process becomes; empty if the process is not
    needed any more. Answers about weights are written to ``answers``.

    Everything that the rank starts has that path in its environment, and its working directory is the rank's.
    """
    gc.disable()  # what is imported stays, and looking through it takes a tenth of the imports
    _import_all()
    gc.freeze()
    gc.enable()
    examined: set[str] = set()
    while (line := _line(descriptor)).startswith(EXAMINE):
        folder = json.loads(line.removeprefix(EXAMINE))
        examined.add(folder)
        os.write(answers, _examination(Path(folder)))
    path = os.fsdecode(line)
    if path:
        os.environ[CONFIG_VARIABLE] = path
        os.chdir(Path(path).parent)
        if not _may_serve(path, examined):
            os.execv(sys.executable, sys.orig_argv)
    return path


def _line(descriptor: int) -> bytes:
    """Return the next line without its end; empty at the end of input. Nobody writes a line before he needs it."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(descriptor, _LINE_BYTES_MAX)
        if not chunk:
            return b""
        line += chunk
    return line[:-1]


def _examination(folder: Path) -> bytes:
    from .examination import examine

    with _silent():
        answer = examine(folder)
    gc.collect()
    return json.dumps(answer).encode() + b"\n"


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what libraries print out of the log of the rank to be."""
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(nowhere)


def _may_serve(config_path: str, examined: set[str]) -> bool:
    """Return whether this process may become the rank: nothing was examined but its own weights, and MLX is not to be
    told anything that it reads when it is first used."""
    if not examined:
        return True
    try:
        config = read_config(config_path)
    except RankEnd:
        return False
    return examined == {config.model_path} and not config.fast_synch


def _import_all() -> None:
    from .group import neighbours, ring  # noqa: F401
    from .model.adapter import versions
    from .requests import server  # noqa: F401

    versions()  # of what is imported now: another may be installed by the time they are asked for
