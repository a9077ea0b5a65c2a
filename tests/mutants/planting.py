"""A bug in a copy of the product. The working tree is never touched."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = (
    "reconciler",
    "tests",
    "examples",
    "manifests",
    "docs",
    "schemas",
    "pyproject.toml",
    "constraints.txt",
    "README.md",
)


def spoiled(mutant: Mutant, root: Path = ROOT) -> str:
    """The whole source file with the bug in it. Raises ``NotApplicable``."""
    return mutant.spoil(mutant.address.file(root).read_text(encoding="utf-8"))


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the product and its tests, compiled files included, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="planted-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder).resolve()
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, symlinks=True)
            else:
                shutil.copy2(ROOT / name, copy / name)
        yield copy


@contextmanager
def planted(mutant: Mutant, copy: Path) -> Iterator[None]:
    """The bug in the copy, and afterwards the copy as it was. Raises ``NotApplicable``."""
    path = mutant.address.file(copy)
    text, before = spoiled(mutant, copy), path.stat()
    sound = path.read_bytes()
    try:
        path.write_text(text, encoding="utf-8")
        _forget_compiled(path)
        yield
    finally:
        path.write_bytes(sound)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        _forget_compiled(path)
        # Examples that hypothesis found against one bug would be tried first against the next one.
        shutil.rmtree(copy / ".hypothesis", ignore_errors=True)


def _forget_compiled(path: Path) -> None:
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)
