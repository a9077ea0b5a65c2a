"""The agent as one file: a zip archive that Python runs, with its version in its name.

The same sources give the same bytes wherever the same Python makes it (order and times are fixed, nothing is
compressed), so a node that has the file of that name needs no other. Each module is there as source, which any Python
from 3.9 on can run, and compiled for the Python that made the file. Compiling the sources would be half of a shim's
start, which delays the next token of a group that is formed again.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import io
import marshal
import os
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import reconciler

from .pinned_versions import sources
from .wheelhouse import Wheelhouse

_ROOMS = ("agent", "wire")
_TIME = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = 1
"""Flags of a pyc file that is valid by its hash, without checking the hash."""
_START = b"import sys\nfrom reconciler.agent.entry import main\nsys.exit(main())\n"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The file of the agent, or of the gateway, for machines."""

    name: str
    content: bytes
    wheelhouse: Wheelhouse | None = None
    """Source of managed runtimes for nodes; None if no runtimes are built."""


@functools.cache
def build_bundle() -> tuple[bytes, str]:
    """Return the file's bytes and the first 12 hex digits of their SHA-256. The sources are those of the first call,
    because this process runs no others."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        written = {"__main__.py": _START, **sources(_ROOMS)}
        for name, source in sorted({**written, **_compiled(written)}.items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source)
    bundle = content.getvalue()
    return bundle, hashlib.sha256(bundle).hexdigest()[:12]


def _compiled(written: dict[str, bytes]) -> dict[str, bytes]:
    """Return compiled files that ``zipimport`` uses instead of sources with the same Python (PEP 552, unchecked).

    Version 2 of marshal's format has no back references, which differ between compilations.
    """
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + bytes(8)
    return {
        f"{name}c": header + marshal.dumps(_named(_code(name, source), name), 2)
        for name, source in written.items()
    }


def _code(name: str, source: bytes) -> CodeType:
    """Return the code that Python compiled when a file was installed or first used. Compiling all files would be a
    tenth of a controller's start."""
    path = Path(reconciler.__file__).parents[1] / name
    if path.is_file() and path.read_bytes() == source:
        code = SourceFileLoader(name, str(path)).get_code(name)
        if code is not None:
            return code
    return compile(source, name, "exec", dont_inherit=True)


def _named(code: CodeType, name: str) -> CodeType:
    """Return the code with this file name, for tracebacks and in the bytes."""
    inner = (_named(each, name) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(inner))


def write_bundle(directory: Path) -> Path:
    """Put ``agent-<digest>.pyz`` into ``directory`` atomically, unless it is there. Raises ``OSError``.

    Files of other versions are removed, unless an agent runs from them.
    """
    bundle, digest = build_bundle()
    path = directory / f"agent-{digest}.pyz"
    for other in directory.glob("agent-*.pyz"):
        if other != path and not _in_use(other):
            other.unlink(missing_ok=True)
    if path.exists():
        return path
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(prefix=".agent-", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(bundle)
            stream.flush()
            os.fsync(stream.fileno())
        Path(unfinished).replace(path)
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return path


def _in_use(bundle: Path) -> bool:
    """Return whether an agent runs from it: each agent holds a shared lock on its file, which its shims start from."""
    try:
        with bundle.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def bundle_of(path: Path, wheelhouse: Wheelhouse | None = None) -> Bundle:
    """Return the bundle that ``write_bundle`` has made."""
    return Bundle(path.name, path.read_bytes(), wheelhouse)
