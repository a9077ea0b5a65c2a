"""The version of a build: that of the package for a release, else with the commit, or the content, that it was built from.

Hatchling calls it (https://hatch.pypa.io/latest/plugins/build-hook/custom/). Two builds of other content have other
versions, so that an upgrade from one to the other is one.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parents[1]
STATED = "reconciler/__init__.py"
BUILT_FROM = (
    "pyproject.toml",
    ".ci/hatch_build.py",
    "reconciler",
    "manifests",
    "examples/models/tiny",
    "schemas",
)
"""What of the tree is in a wheel, or decides what is."""
GIT_SECONDS = 20.0
_LINE = re.compile(r'(?m)^__version__ = "(.*)"$')


def version(root: Path = ROOT) -> str:
    """Return the version: ``0.1.0`` at the tag ``v0.1.0`` and in a source archive of that, ``0.1.0+gCOMMIT`` at another
    commit, ``0.1.0+gCOMMIT.dDIGEST`` where files differ from it, ``0.1.0+dDIGEST`` without git."""
    archive = root / "PKG-INFO"
    if archive.exists():
        return str(HeaderParser().parsestr(archive.read_text())["Version"])
    (number,) = _LINE.findall((root / STATED).read_text())
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return f"{number}+d{_digest(root)}"
    commit, changed = (
        _git(root, "rev-parse", "--short=12", "HEAD"),
        _git(root, "status", "--porcelain", "--", *_there(root)),
    )
    if commit is None or changed is None:
        return f"{number}+d{_digest(root)}"
    if changed:
        return f"{number}+g{commit}.d{_digest(root)}"
    tags = _git(root, "tag", "--points-at", "HEAD") or ""
    return number if f"v{number}" in tags.split() else f"{number}+g{commit}"


def _there(root: Path) -> list[str]:
    return [name for name in BUILT_FROM if (root / name).exists()]


def _git(root: Path, *words: str) -> str | None:
    """Return what git says; None where there is no git, or no repository that it may read."""
    try:
        done = subprocess.run(
            ("git", "-C", str(root), *words), capture_output=True, text=True, timeout=GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _digest(root: Path) -> str:
    """Return a digest of the files that a wheel is built from, by their names."""
    found = hashlib.sha256()
    for name in _there(root):
        top = root / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                found.update(f"{path.relative_to(root)} {content}\n".encode())
    return found.hexdigest()[:12]


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Has the package in a wheel state the version of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Replace the file that states it; an editable installation has the files of the tree."""
        if self.target_name != "wheel" or version == "editable":
            return
        stated = Path(self.root) / STATED
        self._folder = tempfile.TemporaryDirectory()
        made = Path(self._folder.name) / "__init__.py"
        made.write_text(_LINE.sub(f'__version__ = "{self.metadata.version}"', stated.read_text()))
        build_data["force_include"][str(made)] = STATED

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
