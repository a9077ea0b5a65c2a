"""What the pinned wheels for macOS say when something fails: the texts of Metal, JACCL and the ring in their libraries.

``wheel_texts.yaml`` has each of them with the class that a rank makes of it, or why it never sees it. After a change of
the pin, ``python -m tests.runner.model.wheel_texts`` gets the new wheels from the index and prints what has come and
gone: give each new text its class in ``mlx_errors``, and write it down.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

from reconciler.remote.runtime import pinned_versions

FILE = Path(__file__).with_suffix(".yaml")
LIBRARIES = ("libmlx.dylib", "libjaccl.dylib")
PLATFORM = "macosx_26_0_arm64"
DOWNLOAD_SECONDS = 300.0
_PRINTABLE = re.compile(rb"[\x20-\x7e]{6,}")
_WANTED = re.compile(
    r"\[(METAL|[Mm]etal::\w+|jaccl|ring|distributed|malloc|residency|Event::\w+|ThreadPool::\w+)\]"
    r"|Couldn't |Can't parse address|Accept failed|(Send|Recv) failed with errno|Cannot initialize"
    r"|.*(buffer size|failed with errno)"
)
"""Tags that MLX's Metal, JACCL and ring begin their texts with, and the texts to which a tag is added as they are raised."""


def known() -> dict[str, Any]:
    """Return the file: ``version``, ``classes`` (texts by the name of an exit status) and ``harmless`` (reason by text)."""
    content: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return content


def pinned() -> str:
    """Return the version of MLX that managed runtimes have."""
    pins = Path(pinned_versions.__file__).with_name("runtime.txt").read_text()
    found = re.search(r"^mlx==(\S+)$", pins, re.MULTILINE)
    assert found, "runtime.txt pins no mlx"
    return found[1]


def texts_in(wheel: Path) -> set[str]:
    """Return the wanted texts of a wheel's libraries. Long texts are in pieces, of which the first has the tag."""
    found: set[str] = set()
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if Path(name).name in LIBRARIES:
                pieces = (piece.decode().strip() for piece in _PRINTABLE.findall(files.read(name)))
                found |= {piece for piece in pieces if _WANTED.match(piece)}
    return found


def download(version: str) -> set[str]:
    """Get the wheels of a version, and return their texts. Raises ``CalledProcessError`` without an index."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{name}=={version}" for name in ("mlx", "mlx-metal")]
        where = [
            "--platform",
            PLATFORM,
            "--python-version",
            "3.11",
            "--only-binary=:all:",
            "--no-deps",
            "-d",
            folder,
        ]
        command = [sys.executable, "-m", "pip", "download", "--quiet", *names, *where]
        subprocess.run(command, check=True, timeout=DOWNLOAD_SECONDS, capture_output=True)
        return set().union(*(texts_in(wheel) for wheel in Path(folder).glob("*.whl")))


def difference(found: set[str]) -> list[str]:
    """Return what is in the libraries and not in the file, and the other way round, a line each."""
    content = known()
    listed = {text for texts in content["classes"].values() for text in texts} | set(content["harmless"])
    return [f"+ {text}" for text in sorted(found - listed)] + [f"- {text}" for text in sorted(listed - found)]


if __name__ == "__main__":
    print("\n".join(difference(download(pinned()))) or "no text has come or gone")
