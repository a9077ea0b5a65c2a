"""What a managed runtime is made of, small and at hand: stand-in wheels in a folder, and this very interpreter.

uv is told of both by settings that anybody may use: ``UV_FIND_LINKS``, ``no-index`` in the file that ``UV_CONFIG_FILE``
names, for which there is no variable, and ``UV_PYTHON_DOWNLOADS_JSON_URL`` with a ``file:`` URL in it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import BinaryIO

from reconciler.remote.runtime.pinned_versions import PLATFORMS, Platform, Recipe

VERSION = platform.python_version()
WHEELS = {"mlx": "mlx/core.py", "mlx-lm": "mlx_lm/__init__.py"}
IMPORTS = ("mlx.core", "mlx_lm", "reconciler.runner")


def here() -> Platform:
    """The kind of machine that this is."""
    name = f"{os.uname().sysname}/{os.uname().machine}"
    return next(each for each in PLATFORMS if each.name == name)


def recipe(version: str = "1.0") -> Recipe:
    """A runtime of stand-ins."""
    pins = tuple(f"{name}=={version}" for name in WHEELS)
    return Recipe(here(), VERSION, pins, "0" * 12, IMPORTS)


def settings(folder: Path) -> dict[str, str]:
    """Make the interpreter's archive and the wheels of two versions; the environment in which uv finds them."""
    for version in ("1.0", "2.0"):
        for name, module in WHEELS.items():
            write_wheel(folder / "wheels", name, version, module)
    (folder / "uv.toml").write_text("no-index = true\n")
    return {
        "UV_CONFIG_FILE": str(folder / "uv.toml"),
        "UV_FIND_LINKS": str(folder / "wheels"),
        "UV_PYTHON_DOWNLOADS_JSON_URL": str(_write_python(folder / "python")),
    }


def write_wheel(folder: Path, name: str, version: str, module: str) -> None:
    """A wheel of one module, which says its version."""
    folder.mkdir(parents=True, exist_ok=True)
    package = name.replace("-", "_")
    metadata = f"{package}-{version}.dist-info"
    files = {
        module: f"VERSION = {version!r}\n",
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_hash(text)},{len(text)}\n" for path, text in files.items())
    files[f"{metadata}/RECORD"] = f"{record}{metadata}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{package}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _write_python(folder: Path) -> Path:
    """An archive of the interpreter that runs this, as small as it still starts, and uv's list with it alone."""
    folder.mkdir()
    archive = folder / "python.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1, dereference=True) as tar:  # Debian's leads to /etc
        for path in _of_python():
            tar.add(path, f"python/{path.relative_to(sys.base_prefix)}", recursive=False)
        tar.addfile(*_site_packages(f"python/lib/python{sys.version_info[0]}.{sys.version_info[1]}"))
    system, family, libc = here().python.split("-")
    major, minor, patch = map(int, VERSION.split("."))
    entry = {
        "name": "cpython",
        "arch": {"family": family, "variant": None},
        "os": "darwin" if system == "macos" else system,
        "libc": libc,
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "url": archive.as_uri(),
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "variant": None,
        "build": "1",
    }
    listing = folder / "downloads.json"
    listing.write_text(json.dumps({f"cpython-{VERSION}-{here().python}": entry}))
    return listing


def _site_packages(library: str) -> tuple[tarfile.TarInfo, BinaryIO]:
    """A module for the archive that reads ``site-packages``: Debian's interpreter does not, but for ``dist-packages``."""
    text = b"import site\nsite.addsitedir(__file__.rpartition('/')[0] + '/site-packages')\n"
    member = tarfile.TarInfo(f"{library}/sitecustomize.py")
    member.size = len(text)
    return member, io.BytesIO(text)


def _of_python() -> list[Path]:
    base, minor = Path(sys.base_prefix), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    library = base / "lib" / minor
    left_out = {
        "site-packages",
        "test",
        "idlelib",
        "tkinter",
        "turtledemo",
        "ensurepip",
        "lib2to3",
        "__pycache__",
        "sitecustomize.py",
    }
    left_out |= {path.name for path in library.glob("config-*")}
    found = [base / "bin" / "python3", base / "bin" / minor, *sorted((base / "lib").glob("libpython3*.so*"))]
    found += [
        path for path in sorted(library.rglob("*")) if left_out.isdisjoint(path.relative_to(library).parts)
    ]
    return [path for path in found if path.exists()]
