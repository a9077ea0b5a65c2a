"""The Python of an emulated machine: the files that its site-packages have in addition to the host's packages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

SHIM = Path(__file__).parent / "emulated"
PACKAGE = "emulated_mac"


def put_shim(packages: Path, machine: str, control: Path) -> None:
    """Make every process of the Python with these site-packages believe that it runs on that machine (``emulated``)."""
    target = packages / PACKAGE
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(SHIM, target, ignore=shutil.ignore_patterns("__pycache__"))
    config = {"machine": machine, "control": str(control)}
    (packages / f"{PACKAGE}.json").write_text(json.dumps(config), encoding="utf-8")
    (packages / f"{PACKAGE}.pth").write_text(f"import {PACKAGE}; {PACKAGE}.begin()\n", encoding="utf-8")


def put_idleness(packages: Path, seconds: float) -> None:
    """Make the agent of that machine believe that its ranks have been idle for ``seconds``."""
    (packages / f"{PACKAGE}.idle").write_text(f"{seconds:g}\n", encoding="utf-8")
