"""The parts of managed runtimes, kept by the controller: nodes get them from here, and need no internet.

uv downloads them as its settings say (https://docs.astral.sh/uv/reference/environment/). Wheels come from an index or a
folder (``UV_DEFAULT_INDEX``, ``UV_FIND_LINKS``), interpreters from python-build-standalone's releases or a mirror,
which may be a folder (``UV_PYTHON_INSTALL_MIRROR=file:///…``). Each part is downloaded once, unpacked, and kept as a
separate archive under the digest of its content.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gzip
import hashlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from uv import find_uv_bin

from reconciler.errors import Refused
from reconciler.remote.commands import run_locally

from .pinned_versions import Recipe, engine_files

UV_SECONDS = 900.0
"""Time limit for one part: some have hundreds of megabytes."""
LOCK_LOOK_SECONDS = 0.5
RECIPES_KEPT = 2
"""Recipes to keep for each platform, so that going back needs no download."""
_WORDS = 300
_GZIP_LEVEL = 3
Tell = Callable[[str], None]
"""A function that gets progress messages for people."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One part: an archive that is unpacked into ``folder`` of a runtime."""

    name: str
    path: Path
    digest: str
    """SHA-256 of the archive."""
    size: int
    unpacked: int
    """Bytes of its files."""
    folder: str


class Wheelhouse:
    """A folder of the controller's, and the recipes of its runtimes by ``uname -s``/``uname -m``."""

    def __init__(self, directory: Path, recipes: Mapping[str, Recipe]) -> None:
        self._directory = directory
        self.recipes = recipes
        self._lock = asyncio.Lock()

    async def packs(self, recipe: Recipe, tell: Tell) -> tuple[Pack, ...]:
        """Return all parts of a runtime, with the interpreter first, and download missing ones. Raises ``Refused``."""
        async with self._lock, _alone(self._directory):
            for unfinished in self._directory.glob(".making-*"):
                shutil.rmtree(unfinished)
            platform, site = recipe.platform, f"lib/python{recipe.minor}/site-packages"
            parts = [f"python-{recipe.python}-{platform.python}"]
            parts += [f"{pin}-cp{recipe.minor}-{platform.wheels}" for pin in recipe.wheels]
            tell(f"getting Python {recipe.python} for {platform.name}")
            found = [await self._pack(parts[0], "", partial(self._get_python, recipe))]
            for number, (part, pin) in enumerate(zip(parts[1:], recipe.wheels, strict=True), 1):
                tell(f"getting {pin} for {platform.name}: {number} of {len(recipe.wheels)}")
                found.append(await self._pack(part, site, partial(self._get_wheel, recipe, pin)))
            found.append(await self._pack(f"engine-{recipe.engine}", site, _get_engine))
            self._keep(recipe, found)
            return tuple(found)

    async def _pack(self, part: str, folder: str, get: Callable[[Path], Awaitable[None]]) -> Pack:
        known = next(self._directory.glob(f"{part}.*.tar.gz"), None)
        if known is None:
            with tempfile.TemporaryDirectory(prefix=".making-", dir=self._directory) as place:
                tree = Path(place, "tree")
                tree.mkdir()
                await get(tree)
                known = await asyncio.to_thread(_archive, tree, Path(place, "pack"), self._directory / part)
        *_, unpacked, digest, _, _ = known.name.split(".")
        return Pack(part, known, digest, known.stat().st_size, int(unpacked), folder)

    async def _get_python(self, recipe: Recipe, place: Path) -> None:
        name = f"cpython-{recipe.python}-{recipe.platform.python}"
        install = ("python", "install", "--no-bin", "--no-cache", "--install-dir", str(place / "all"), name)
        await _uv(recipe, install, f"the interpreter {name}")
        (only,) = (
            each
            for each in (place / "all").iterdir()
            if each.is_dir() and not each.is_symlink() and each.name[0] != "."
        )
        for each in only.iterdir():
            each.rename(place / each.name)
        shutil.rmtree(place / "all")

    async def _get_wheel(self, recipe: Recipe, pin: str, place: Path) -> None:
        exactly = ("--no-deps", "--only-binary", ":all:", "--python-version", recipe.minor)
        where = (
            "--python-platform",
            recipe.platform.wheels,
            "--python",
            sys.executable,
            "--target",
            str(place),
        )
        install = ("pip", "install", "--no-cache", "--link-mode", "copy", *exactly, *where, pin)
        await _uv(recipe, install, f"{pin} for {recipe.platform.name}")

    def _keep(self, recipe: Recipe, packs: Iterable[Pack]) -> None:
        """Record the parts of a recipe, and remove parts that none of the newest recipes uses."""
        lists = self._directory / f"{recipe.platform.python}.{recipe.key}.parts"
        lists.write_text("".join(f"{pack.path.name}\n" for pack in packs), encoding="utf-8")
        used: set[str] = set()
        for platform in {path.name.partition(".")[0] for path in self._directory.glob("*.parts")}:
            known = sorted(
                self._directory.glob(f"{platform}.*.parts"), key=lambda path: -path.stat().st_mtime
            )
            for path in known[:RECIPES_KEPT]:
                used |= set(path.read_text(encoding="utf-8").split())
            for path in known[RECIPES_KEPT:]:
                path.unlink()
        for path in self._directory.glob("*.tar.gz"):
            if path.name not in used:
                path.unlink()


@contextlib.asynccontextmanager
async def _alone(directory: Path) -> AsyncIterator[None]:
    """Be the only process that fills a folder. Raises ``Refused`` if another process takes too long."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as file:
        for _ in range(int(UV_SECONDS / LOCK_LOOK_SECONDS)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOCK_LOOK_SECONDS)
        else:
            raise Refused(
                "RuntimeUnavailable",
                f"another process has been filling {directory} for more than {UV_SECONDS:g} s",
            )
        yield


async def _get_engine(place: Path) -> None:
    for name, content in engine_files().items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _archive(tree: Path, draft: Path, final: Path) -> Path:
    """Pack a folder so that the same files give the same bytes. Size and digest become part of the name."""
    unpacked = 0
    with draft.open("wb") as file, gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as stream:
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(tree.rglob("*")):
                entry = archive.gettarinfo(path, path.relative_to(tree).as_posix())
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                entry.mtime = 0
                unpacked += entry.size
                if entry.isfile():
                    with path.open("rb") as content:
                        archive.addfile(entry, content)
                else:
                    archive.addfile(entry, io.BytesIO())
        stream.close()
    with draft.open("rb") as made:
        digest = hashlib.file_digest(made, "sha256").hexdigest()
    return draft.rename(final.with_name(f"{final.name}.{unpacked}.{digest}.tar.gz"))


async def _uv(recipe: Recipe, words: Sequence[str], what: str) -> None:
    """Run uv, which trusts the certificates of this system unless its settings say otherwise. Raises ``Refused`` with
    its output."""
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ, "NO_COLOR": "1", **recipe.platform.environment}
    try:
        done = await run_locally(find_uv_bin(), *words, timeout=UV_SECONDS, environment=environment)
    except TimeoutError:
        raise Refused("RuntimeUnavailable", f"{what}: uv did not end within {UV_SECONDS:g} s") from None
    if done.status != 0:
        lines = [" ".join(line.split()) for line in done.err.splitlines() if line.strip()]
        text = "; ".join(line[:_WORDS] for line in (*lines[:1], *lines[1:][-1:]))
        raise Refused("RuntimeUnavailable", f"the controller cannot get {what}: {text}")
