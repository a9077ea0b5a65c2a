"""Installs clients once, each by itself, in a folder outside the repository: versions are in the folders' names."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .rows import JAVA, PYTHON

CACHE = Path(os.environ.get("RECONCILER_CLIENTS", "~/.cache/reconciler-clients")).expanduser()
SECONDS_MAX = 3600.0
"""Open WebUI installs gigabytes."""


def folder_of(kind: str, packages: Sequence[str]) -> Path:
    """Return the folder for packages of these versions."""
    digest = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8]
    return CACHE / kind / f"{re.sub(r'[^.0-9A-Za-z]+', '-', packages[0]).strip('-')}-{digest}"


def installed(kind: str, packages: Sequence[str]) -> Path:
    """Return the folder where packages are installed. Raises ``CalledProcessError`` where a registry refuses, and
    ``FileNotFoundError`` without a JDK, which Debian has in ``default-jdk-headless``."""
    folder = folder_of(kind, packages)
    done = folder / "installed"
    if done.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if kind == PYTHON:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *packages])
    elif kind == JAVA:
        _run(["javac", "-version"])
    else:
        (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        _run(["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), *packages])
    done.touch()
    return folder


def forget_others(kind: str, kept: Sequence[Path]) -> None:
    """Remove the versions of packages that are not among the folders ``kept``, each of which names its package."""
    packages = {_package(folder) for folder in kept}
    for folder in (CACHE / kind).iterdir():
        if folder not in kept and _package(folder) in packages:
            shutil.rmtree(folder)


def _package(folder: Path) -> str:
    """Return what the name of a folder says before the version."""
    return re.split(r"-\d+\.", folder.name)[0]


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
