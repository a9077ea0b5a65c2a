"""Wheels of the product as it is built for people, and a folder of wheels that an environment is made of without a network.

The other packages are this interpreter's own: each has a wheel with nothing but its metadata, so that real tools choose
versions among them, and one file that leads to where they are.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import site
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILT_FROM = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "reconciler",
    "manifests",
    "examples/models/tiny",
    "schemas",
    ".ci/hatch_build.py",
)
ITSELF = re.compile(r"^(mlx[-_])?reconciler$")


def build(folder: Path, source: Path = ROOT) -> Path:
    """Build the product's wheel of a tree into ``folder``, and return its path."""
    before = set(folder.glob("*.whl"))
    hatchling("wheel", folder, source)
    (made,) = set(folder.glob("*.whl")) - before
    return made


def hatchling(target: str, folder: Path, source: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


def of_this_version(folder: Path) -> Path:
    """Fill a folder with wheels of the product and of all that it needs, and return it."""
    build(folder)
    write_other_packages(folder)
    return folder


def tree_of_version(folder: Path, version: str) -> Path:
    """Copy what a wheel is built from into ``folder``, as the source archive of another version."""
    for name in BUILT_FROM:
        path, target = ROOT / name, folder / name
        if path.is_dir():
            shutil.copytree(path, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    information = f"Metadata-Version: 2.4\nName: mlx-reconciler\nVersion: {version}\n"
    (folder / "PKG-INFO").write_text(information)
    stated = folder / "reconciler" / "__init__.py"
    stated.write_text(re.sub(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', stated.read_text()))
    return folder


def of_product(folder: Path) -> str:
    """Return what installs the product from its wheel in a folder."""
    (wheel,) = folder.glob("mlx_reconciler-*.whl")
    return f"mlx-reconciler[runtime] @ {wheel.as_uri()}"


def write_other_packages(folder: Path) -> None:
    """Write a wheel for each package of this interpreter but the product."""
    for found in importlib.metadata.distributions():
        name = found.metadata["Name"]
        if ITSELF.match(name):
            continue
        stem = f"{re.sub(r'[-_.]+', '_', name)}-{found.version}"
        information = f"{stem}.dist-info"
        files = {
            f"{information}/METADATA": found.read_text("METADATA") or "",
            f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        if name == "click":  # which the product needs in any case
            files["others.pth"] = "\n".join(site.getsitepackages()) + "\n"
        record = "".join(f"{path},,\n" for path in (*files, f"{information}/RECORD"))
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            for path, text in {**files, f"{information}/RECORD": record}.items():
                wheel.writestr(path, text)


def without_network(wheels: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment in which uv finds only these wheels, and the product nothing of this repository."""
    kept = {name: value for name, value in base.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    own = {
        "UV_FIND_LINKS": str(wheels),
        "UV_CACHE_DIR": str(wheels / "cache"),
    }  # another cache may know an index
    return {**kept, **own, "UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never"}


def environment_with(folder: Path, requirement: str, wheels: Path) -> Path:
    """Make a virtual environment with ``requirement``, as `uv tool install` does, and return its `reconciler`."""
    uv = [sys.executable, "-m", "uv"]
    environ = without_network(wheels)
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True, env=environ)
    install = [*uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), requirement]
    subprocess.run(install, check=True, env=environ)
    return folder / "bin" / "reconciler"
