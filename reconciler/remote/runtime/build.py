"""The managed runtime of a node, in ``~/.reconciler`` there: sent in parts, assembled in a draft folder, tried, and
only then moved to ``runtimes/<key>``. It uses plain ``sh`` and ``tar``, because a machine may have no Python at all.

Sent parts stay, and are not sent again: the digest of its content identifies a part.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from reconciler.errors import Refused, Unreachable

from .pinned_versions import Recipe
from .wheelhouse import Pack, Tell

if TYPE_CHECKING:  # the module loads asyncssh, which a cluster on one machine does not need
    from reconciler.remote.commands import Completed

PIECE_BYTES = 4 * 2**20
"""The bytes that are sent at a time: arrived pieces are not sent again."""
PIECE_SECONDS = 120.0
ASK_SECONDS = 30.0
UNPACK_SECONDS = 300.0
TRY_SECONDS = 300.0
"""Time for a first import of mlx, from a cold disk and without byte code."""
SLACK_BYTES = 256 * 2**20
_MIB = 2**20
_TAIL = 600

_STATE = """
root=$1 key=$2; shift 2; umask 077; mkdir -p "$root/packs" "$root/runtimes" || exit 1
[ -x "$root/runtimes/$key/bin/python3" ] && echo built
df -Pk "$root" | awk 'NR == 2 { print "free", $4 }'
for each; do
    if [ -f "$root/packs/$each.tar.gz" ]; then echo "complete $each"
    elif [ -f "$root/packs/$each.part" ]; then echo "part $each $(($(wc -c < "$root/packs/$each.part")))"; fi
done
"""
_PIECE = """
umask 077; [ "$2" -eq 0 ] && : > "$1"
[ "$(wc -c < "$1")" -eq "$2" ] || { echo "$1 is not as it was left" >&2; exit 1; }
cat >> "$1"; [ "$(wc -c < "$1")" -eq "$3" ] || { echo "$1 was cut off" >&2; exit 1; }
"""
_COMPLETE = """
if command -v sha256sum >/dev/null; then sum=$(sha256sum "$1"); else sum=$(shasum -a 256 "$1"); fi
[ "${sum%% *}" = "$3" ] || { rm -f "$1"; echo "$1 did not arrive as it was sent" >&2; exit 1; }
mv -f "$1" "$2"
"""
_UNPACK = 'umask 077; mkdir -p "$2" && tar -xzf "$1" -C "$2"'
_PUBLISH = """
cat > "$1/parts"; sync; [ -e "$2" ] || mv "$1" "$2" || exit 1
rm -rf "$1"; [ -x "$2/bin/python3" ]
"""
_TRY = """
import importlib, importlib.metadata, json, sys
wanted, modules = json.loads(sys.argv[1])
for name, version in wanted.items():
    found = importlib.metadata.version(name)
    if found != version:
        sys.exit("%s %s is there instead of %s" % (name, found, version))
for name in modules:
    importlib.import_module(name)
"""
_PRUNE = """
root=$1 key=$2; cd "$root/runtimes" 2>/dev/null || exit 0
find . -maxdepth 1 -name '.draft-*' -mtime +0 -exec rm -rf {} +
rm -rf .gone-*; running=$(ps -A -ww -o args=) || exit 1; kept=
for each in $(ls -t); do
    [ "$each" = "$key" ] && continue
    [ -z "$kept" ] && { kept=$each; continue; }
    case "$running" in *"$root/runtimes/$each/"*) echo "used $each"; continue; esac
    grep -qsF "$root/runtimes/$each/" "$HOME/.ssh/authorized_keys" "$root"/nodes/*/serve && { echo "used $each"; continue; }
    mv "$each" ".gone-$each" && rm -rf ".gone-$each" && echo "removed $each"
done
cd "$root/packs" 2>/dev/null || exit 0
for each in *; do grep -qsx "${each%%.*}" "$root"/runtimes/*/parts || rm -f "$each"; done
"""


class Shell(Protocol):
    """A machine that runs commands."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float,  # noqa: ASYNC109 - as SshNode.run
    ) -> Completed: ...


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of pruning old runtimes."""

    removed: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    """Runtimes that something still uses."""


def python_of(root: PurePosixPath, key: str) -> PurePosixPath:
    return root / "runtimes" / key / "bin" / "python3"


class Build:
    """One runtime on one machine; ``root`` is ``~/.reconciler`` there. Every method raises ``Unreachable``."""

    def __init__(self, shell: Shell, name: str, root: PurePosixPath, tell: Tell, builder: str = "") -> None:
        """``builder`` distinguishes simultaneous builders, which use separate folders."""
        self._shell = shell
        self._name = name
        self._root = root
        self._tell = tell
        self._builder = builder

    async def built(self, recipe: Recipe) -> bool:
        """Return whether the runtime is complete and tested there."""
        return "built" in (await self._state(recipe, ())).splitlines()

    async def ensure(self, recipe: Recipe, packs: tuple[Pack, ...]) -> None:
        """Build the runtime unless it exists. Raises ``Refused``: ``DiskFull``, before anything is sent, if it would
        not fit, ``RuntimeBroken`` if it does not run there."""
        state = [line.split() for line in (await self._state(recipe, packs)).splitlines()]
        if ["built"] in state:
            return
        complete = {words[1] for words in state if words[0] == "complete"}
        parts = {words[1]: int(words[2]) for words in state if words[0] == "part"}
        missing = [pack for pack in packs if pack.digest not in complete]
        to_send = sum(pack.size - parts.get(pack.digest, 0) for pack in missing)
        free = next((int(words[1]) * 1024 for words in state if words[0] == "free"), None)
        need = to_send + sum(pack.unpacked for pack in packs) + SLACK_BYTES
        if free is not None and free < need:
            text = f"the runtime needs {need // _MIB} MiB on {self._name}, but {free // _MIB} MiB are free: free disk space there"
            raise Refused("DiskFull", text)
        sent = 0
        for pack in missing:
            sent = await self._send(pack, parts.get(pack.digest, 0), (sent, to_send))
        await self._assemble(recipe, packs)

    async def _state(self, recipe: Recipe, packs: Sequence[Pack]) -> str:
        digests = (pack.digest for pack in packs)
        return await self._sh(_STATE, str(self._root), recipe.key, *digests, seconds=ASK_SECONDS)

    async def _send(self, pack: Pack, offset: int, progress: tuple[int, int]) -> int:
        """Send the rest of a part. Return the bytes of all parts sent so far."""
        sent, to_send = progress
        part = str(self._root / "packs" / f"{pack.digest}.part")
        if offset > pack.size:
            offset = 0
        with pack.path.open("rb") as file:
            file.seek(offset)
            while offset < pack.size:
                piece = await asyncio.to_thread(file.read, PIECE_BYTES)
                self._tell(f"sending {sent // _MIB} of {to_send // _MIB} MiB")
                after = offset + len(piece)
                await self._sh(_PIECE, part, str(offset), str(after), seconds=PIECE_SECONDS, stdin=piece)
                sent, offset = sent + len(piece), after
        archive = str(self._root / "packs" / f"{pack.digest}.tar.gz")
        await self._sh(_COMPLETE, part, archive, pack.digest, seconds=PIECE_SECONDS)
        return sent

    async def _assemble(self, recipe: Recipe, packs: tuple[Pack, ...]) -> None:
        draft = self._root / "runtimes" / f".draft-{recipe.key}{self._builder}"
        await self._sh('rm -rf "$1"', str(draft), seconds=UNPACK_SECONDS)
        for number, pack in enumerate(packs, 1):
            self._tell(f"unpacking {number} of {len(packs)}")
            archive = str(self._root / "packs" / f"{pack.digest}.tar.gz")
            await self._sh(_UNPACK, archive, str(draft / pack.folder), seconds=UNPACK_SECONDS)
        self._tell("trying it")
        versions = dict(pin.split("==") for pin in recipe.wheels)
        expected = json.dumps([versions, recipe.imports])
        command = (str(draft / "bin" / "python3"), "-I", "-c", _TRY, expected)
        tried = await self._shell.run(command, timeout=TRY_SECONDS)
        if tried.status != 0:
            raise Refused("RuntimeBroken", f"the runtime does not work on {self._name}: {_last_line(tried)}")
        final = self._root / "runtimes" / recipe.key
        parts = "".join(f"{pack.digest}\n" for pack in packs).encode()
        await self._sh(_PUBLISH, str(draft), str(final), seconds=UNPACK_SECONDS, stdin=parts)

    async def prune(self, recipe: Recipe) -> Pruned:
        """Remove unused runtimes except this one and the last before it, and the parts that are in neither."""
        words = (str(self._root), recipe.key)
        lines = [
            line.split() for line in (await self._sh(_PRUNE, *words, seconds=UNPACK_SECONDS)).splitlines()
        ]
        removed, used = (
            tuple(name for what, name in lines if what == which) for which in ("removed", "used")
        )
        return Pruned(removed, used)

    async def _sh(self, script: str, *words: str, seconds: float, stdin: bytes = b"") -> str:
        done = await self._shell.run(
            ("/bin/sh", "-c", script, "runtime", *words), stdin=stdin, timeout=seconds
        )
        if done.status != 0:
            raise Unreachable(f"the runtime of {self._name}: {_last_line(done)}")
        return done.out


def _last_line(done: Completed) -> str:
    lines = (done.err or done.out).strip().splitlines()
    return lines[-1][-_TAIL:] if lines else f"exit status {done.status}"
