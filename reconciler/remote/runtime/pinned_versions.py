"""The exact contents of the managed runtime, which give it its name and make all builds equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import reconciler
from reconciler.wire.engines import ENGINES, JOB

PYTHON = "3.11.18"
"""Version of Python in uv's notation, from python-build-standalone."""
MACOS = "26.2"
"""The oldest macOS for ranks over Thunderbolt: wheels for older ones do not have JACCL."""
GATEWAY_IMPORTS = (
    "asyncssh",
    "backports.zstd",
    "httptools",
    "orjson",
    "prometheus_client",
    "starlette",
    "uvicorn",
    "uvloop",
    "valkey",
)
"""The modules that a gateway needs in addition to its file. Every runtime has them, so that a node that gets a gateway
later keeps its runtime."""
IMPORTS = (
    *(name for each in ENGINES for name in (*each.imports, each.module)),
    "huggingface_hub",
    "reconciler.fetcher",
    *GATEWAY_IMPORTS,
)
"""Imports that must work before a runtime is used."""
ROOMS = ("fetcher", JOB.room, *(each.room for each in ENGINES), "wire")
"""Rooms of this product that ranks and fetchers need."""
_PINS = Path(__file__).with_name("runtime.txt")
_KEY_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Platform:
    """A kind of machine, in the words of each tool."""

    name: str
    """``uname -s``/``uname -m``."""
    python: str
    """Platform in the names of uv's interpreters."""
    wheels: str
    """``uv pip --python-platform``."""
    environment: Mapping[str, str]
    """Additional environment variables for uv."""
    sys_platform: str


PLATFORMS = (
    Platform(
        "Darwin/arm64",
        "macos-aarch64-none",
        "aarch64-apple-darwin",
        {"MACOSX_DEPLOYMENT_TARGET": MACOS},
        "darwin",
    ),
    Platform("Linux/x86_64", "linux-x86_64-gnu", "x86_64-manylinux_2_35", {}, "linux"),
    Platform("Linux/aarch64", "linux-aarch64-gnu", "aarch64-manylinux_2_35", {}, "linux"),
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One runtime for one kind of machine."""

    platform: Platform
    python: str
    """Complete version of Python."""
    wheels: tuple[str, ...]
    """``name==version`` of each package; nothing else is installed, even if these require it."""
    engine: str
    """Digest of the code of ranks and fetchers."""
    imports: tuple[str, ...] = field(default=IMPORTS)

    @property
    def key(self) -> str:
        """Return its name: a digest of everything in it."""
        platform = self.platform
        made_of = [self.python, platform.python, platform.wheels, sorted(platform.environment.items())]
        written = json.dumps([*made_of, self.wheels, self.engine])
        return hashlib.sha256(written.encode()).hexdigest()[:_KEY_DIGITS]

    @property
    def minor(self) -> str:
        """Return the minor version, such as ``3.11``."""
        return ".".join(self.python.split(".")[:2])


def recipes() -> dict[str, Recipe]:
    """Return the runtime of every platform, by the platform's name."""
    engine = engine_digest()
    return {each.name: Recipe(each, PYTHON, pins(each), engine) for each in PLATFORMS}


def runtime_names() -> dict[str, str]:
    """Return the name of the runtime of every platform, by the platform's name."""
    return {name: recipe.key for name, recipe in recipes().items()}


def pins(platform: Platform) -> tuple[str, ...]:
    """Return the packages for a platform, as ``name==version``."""
    found = []
    for line in _PINS.read_text("ascii").splitlines():
        pin, _, marker = (part.strip() for part in line.partition(";"))
        if pin and not pin.startswith("#") and marker in ("", f"sys_platform == '{platform.sys_platform}'"):
            found.append(pin)
    return tuple(found)


def sources(rooms: Iterable[str], modules: Iterable[str] = ()) -> dict[str, bytes]:
    """Return the code of rooms and single modules of this product with its tables, by path among the installed packages."""
    package = Path(reconciler.__file__).parent
    paths = [package / f"{name}.py" for name in ("__init__", *modules)]
    paths += [
        path
        for room in rooms
        for kind in ("py", "txt")
        for path in sorted((package / room).rglob(f"*.{kind}"))
    ]
    return {path.relative_to(package.parent).as_posix(): path.read_bytes() for path in paths}


def engine_files() -> dict[str, bytes]:
    """Return the code of ranks and fetchers."""
    return sources(ROOMS)


def engine_digest() -> str:
    """Return the digest of those files."""
    digest = hashlib.sha256()
    for name, content in engine_files().items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:_KEY_DIGITS]
