"""How a runtime is put together on a machine, of parts that need neither uv nor a wheel."""

from __future__ import annotations

import asyncio
import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from reconciler.errors import Refused, Unreachable
from reconciler.remote.commands import Completed
from reconciler.remote.runtime.build import Build
from reconciler.remote.runtime.pinned_versions import Recipe
from reconciler.remote.runtime.wheelhouse import Pack
from tests.remote.supplies import recipe

pytestmark = pytest.mark.processes

SMALL = replace(recipe(), wheels=(), imports=("json",))
"""A runtime of an interpreter alone."""


class Machine:
    """This machine as another one: its commands run in a home of their own, and are remembered."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.root = folder / ".reconciler"
        self.messages: list[str] = []
        self.sent = 0
        self.cut_after: int | None = None
        """How many bytes arrive before the connection breaks."""

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109
        self.sent += len(stdin)
        if self.cut_after is not None and self.sent > self.cut_after:
            raise Unreachable("cut")
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)},
        )
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Completed(process.returncode, out.decode(), err.decode())

    def build(self) -> Build:
        return Build(self, "far", PurePosixPath(self.root), self.messages.append)

    def version(self, made: Recipe) -> str:
        python = self.root / "runtimes" / made.key / "bin" / "python3"
        command = (str(python), "-I", "-c", "import mlx.core; print(mlx.core.VERSION)")
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("there", "sent"), [(b"", 6), (b"con", 3), (b"conten", 0), (b"contents", 6)],
    ids=["nothing", "half", "all", "too much"],
)  # fmt: skip
async def test_of_a_part_what_is_missing_is_sent_and_all_of_one_that_is_too_long(
    machine: Machine, tmp_path: Path, there: bytes, sent: int
) -> None:
    (tmp_path / "archive").write_bytes(b"conten")
    digest = hashlib.sha256(b"conten").hexdigest()
    parts = machine.root / "packs"
    parts.mkdir(parents=True)
    (parts / f"{digest}.part").write_bytes(there)
    pack = Pack("part", tmp_path / "archive", digest, 6, 0, "")
    assert await machine.build()._send(pack, len(there), (0, 6)) == machine.sent == sent
    assert [(path.name, path.read_bytes()) for path in parts.iterdir()] == [(f"{digest}.tar.gz", b"conten")]


def pack(folder: Path, name: str, content: str) -> Pack:
    """An archive of one program, which is unpacked into ``bin``."""
    archive = folder / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content), 0o700
        tar.addfile(member, io.BytesIO(content.encode()))
    packed = archive.read_bytes()
    return Pack(name, archive, hashlib.sha256(packed).hexdigest(), len(packed), len(content), "bin")


@pytest.fixture
def small(tmp_path: Path) -> tuple[Pack, ...]:
    """The parts of a runtime: this interpreter, and a program that nothing needs."""
    return (
        pack(tmp_path, "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n'),
        pack(tmp_path, "more", "#!/bin/sh\n"),
    )


async def test_a_runtime_is_made_of_its_parts_and_only_the_missing_bytes_of_each_are_sent(
    machine: Machine, small: tuple[Pack, ...]
) -> None:
    parts = machine.root / "packs"
    parts.mkdir(parents=True)
    python, more = small
    (parts / f"{python.digest}.part").write_bytes(python.path.read_bytes()[:50])
    (parts / f"{more.digest}.tar.gz").write_bytes(more.path.read_bytes())
    assert not await machine.build().built(SMALL)
    await machine.build().ensure(SMALL, small)
    assert await machine.build().built(SMALL)
    made = machine.root / "runtimes" / SMALL.key
    listed = f"{python.digest}\n{more.digest}\n"
    assert machine.sent == python.size - 50 + len(listed)
    assert (made / "parts").read_text() == listed
    assert {path.name for path in (made / "bin").iterdir()} == {"python3", "more"}
    await machine.build().ensure(SMALL, small)
    assert machine.sent == python.size - 50 + len(listed), "it is there"


async def test_a_runtime_that_does_not_run_is_refused_and_takes_no_place(
    machine: Machine, small: tuple[Pack, ...]
) -> None:
    lacking = replace(SMALL, imports=("json", "no_such_module"))
    with pytest.raises(Refused, match=r"does not work on far: .*no_such_module") as refused:
        await machine.build().ensure(lacking, small)
    assert refused.value.code == "RuntimeBroken"
    assert not await machine.build().built(lacking)


async def test_a_command_that_fails_is_told_in_its_last_words(
    machine: Machine, small: tuple[Pack, ...]
) -> None:
    (machine.root / "packs").mkdir(parents=True)
    (machine.root / "runtimes").touch()
    with pytest.raises(Unreachable, match=r"the runtime of far: .*runtimes"):
        await machine.build().ensure(SMALL, small)
    assert machine.sent == 0
