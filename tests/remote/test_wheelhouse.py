"""Which machines have a managed runtime, and how the controller keeps the parts of one."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from reconciler.errors import Refused
from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.commands import Completed
from reconciler.remote.runtime import wheelhouse
from reconciler.remote.runtime.build import python_of
from reconciler.remote.runtime.managed import Managed
from reconciler.remote.runtime.wheelhouse import Pack, Wheelhouse
from tests.agent.bench import soon

from .supplies import here, recipe

KIND = here().name
HERE = Profile(PurePosixPath("/u/ada"), os.uname().sysname, os.uname().machine, "ada", 501, "far")
ELSEWHERE = replace(HERE, system="Plan9")


class Machine:
    """A machine whose shell finds one runtime."""

    def __init__(self, found: str = "") -> None:
        self.found = found
        self.asked: list[tuple[str, ...]] = []

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109
        self.asked.append(tuple(argv))
        return Completed(0, self.found, "")


def managed(directory: Path, machine: Any = None, python: str | None = None, there: bool = True) -> Managed:
    house = Wheelhouse(directory, {KIND: recipe()}) if there else None
    return Managed(machine or Machine(), "far", house, python)


# --- who has one -----------------------------------------------------------------------------------


async def test_a_machine_of_another_kind_is_told_which_there_are(tmp_path: Path) -> None:
    text = f"^far is {ELSEWHERE.kind}, but runtimes exist for {KIND} only: set an interpreter in spec.python$"
    for asked in (
        managed(tmp_path).build(ELSEWHERE, lambda text: None),
        managed(tmp_path).prune(ELSEWHERE),
    ):
        with pytest.raises(Refused, match=text) as refused:
            await asked
        assert refused.value.code == "NoRuntime"


@pytest.mark.parametrize(
    "kept", [{"python": "/opt/python3"}, {"there": False}], ids=["the owner's Python", "no parts"]
)
async def test_a_runtime_that_is_not_managed_is_not_built(tmp_path: Path, kept: dict[str, Any]) -> None:
    machine = Machine("/u/ada/.reconciler/runtimes/x/bin/python3\n")
    one = managed(tmp_path, machine, **kept)
    with pytest.raises(Refused, match="the runtime of far is not managed") as refused:
        await one.build(HERE, lambda text: None)
    assert refused.value.code == "NotManaged"
    assert (one.lacking(HERE), await one.newest(HERE), machine.asked) == (None, "", [])


async def test_the_runtime_of_this_version_is_lacking_until_it_is_the_one_of_the_ranks(
    tmp_path: Path,
) -> None:
    one = managed(tmp_path)
    wanted = HERE.root / "runtimes" / recipe().key
    assert one.lacking(HERE) == wanted
    assert one.lacking(replace(HERE, ranks_python="/u/ada/.reconciler/runtimes/x/bin/python3")) == wanted
    assert one.lacking(replace(HERE, ranks_python=str(python_of(HERE.root, recipe().key)))) is None
    assert one.lacking(ELSEWHERE) is None


async def test_the_newest_runtime_is_asked_for_with_this_version_first(tmp_path: Path) -> None:
    machine = Machine("/u/ada/.reconciler/runtimes/x/bin/python3\n")
    one = managed(tmp_path, machine)
    assert await one.newest(HERE) == "/u/ada/.reconciler/runtimes/x/bin/python3"
    assert machine.asked[0][3:] == ("newest", "/u/ada/.reconciler/runtimes", recipe().key)
    assert await one.newest(ELSEWHERE) == ""
    assert len(machine.asked) == 1


# --- its parts -------------------------------------------------------------------------------------


def tree(folder: Path, at: float) -> Path:
    """The same files, written at different times."""
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "a.py").write_text("x" * 100)
    (folder / "lib" / "tool").write_text("y" * 11)
    (folder / "lib" / "tool").chmod(0o755)
    (folder / "lib" / "b.py").symlink_to("a.py")
    for path in (folder / "lib" / "a.py", folder / "lib"):
        os.utime(path, (at, at))
    return folder


def test_the_same_files_give_the_same_archive_with_no_trace_of_who_made_it_when(tmp_path: Path) -> None:
    made = []
    for at in (1000, 2000):
        house = tmp_path / f"house-{at}"
        house.mkdir()
        files = tree(tmp_path / f"tree-{at}", at)
        made.append(wheelhouse._archive(files, tmp_path / "draft", house / "part"))
    assert made[0].name == made[1].name
    assert made[0].name.startswith("part.111.")
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as archive:
        entries = archive.getmembers()
        assert [entry.name for entry in entries] == ["lib", "lib/a.py", "lib/b.py", "lib/tool"]
        assert {(entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {
            (0, 0, 0, "", "")
        }
        assert entries[2].linkname == "a.py"
        assert entries[3].mode & 0o777 == 0o755
        content = archive.extractfile("lib/a.py")
        assert content is not None
        assert content.read() == b"x" * 100


async def test_who_waits_for_another_process_to_fill_the_folder_holds_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheelhouse, "LOCK_LOOK_SECONDS", 0.01)
    inside: list[str] = []

    async def fill() -> None:
        async with wheelhouse._alone(tmp_path / "house"):
            inside.append("filled")

    await fill()
    with (tmp_path / "house" / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = asyncio.create_task(fill())
        await asyncio.sleep(0.03)
        assert inside == ["filled"]
    await waiting
    assert inside == ["filled"] * 2


async def test_the_folder_belongs_to_one_process_for_as_long_as_that_fills_it(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as other:
        async with wheelhouse._alone(tmp_path):
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_another_process_that_takes_too_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheelhouse, "LOCK_LOOK_SECONDS", 0.005)
    monkeypatch.setattr(wheelhouse, "UV_SECONDS", 0.02)
    with (tmp_path / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(
            Refused, match=r"another process has been filling .* for more than 0\.02 s"
        ) as late:
            async with wheelhouse._alone(tmp_path):
                raise AssertionError("the other one is still there")
    assert late.value.code == "RuntimeUnavailable"


async def test_a_part_is_got_once_and_what_was_left_unfinished_is_removed(tmp_path: Path) -> None:
    got: list[str] = []

    async def get(place: Path) -> None:
        got.append(place.name)
        (place / "a.py").write_text("x" * 10)

    house = Wheelhouse(tmp_path, {})
    first = await house._pack("mlx==1.0-cp3.11", "lib", get)
    assert await house._pack("mlx==1.0-cp3.11", "lib", get) == first
    assert got == ["tree"]
    assert (first.name, first.folder, first.unpacked) == ("mlx==1.0-cp3.11", "lib", 10)
    assert first.size == first.path.stat().st_size
    assert first.path.name == f"mlx==1.0-cp3.11.10.{first.digest}.tar.gz"
    assert [path.name for path in tmp_path.iterdir()] == [first.path.name]


def test_parts_are_kept_of_the_last_two_recipes_of_each_platform(tmp_path: Path) -> None:
    house = Wheelhouse(tmp_path, {})

    def keep(version: str, at: float, platform: str = "") -> None:
        part = tmp_path / f"mlx-{version}{platform}.tar.gz"
        part.touch()
        made = recipe(version)
        if platform:
            made = replace(made, platform=replace(made.platform, python=platform))
        house._keep(made, (Pack("mlx", part, "d", 1, 1, ""),))
        os.utime(tmp_path / f"{made.platform.python}.{made.key}.parts", (at, at))

    keep("9.0", 50.0, "other")
    for number in range(1, 5):
        keep(f"{number}.0", 1000.0 * number)
    kept = sorted(path.name for path in tmp_path.glob("*.tar.gz"))
    assert kept == ["mlx-3.0.tar.gz", "mlx-4.0.tar.gz", "mlx-9.0other.tar.gz"]
    assert len(list(tmp_path.glob("*.parts"))) == 3


async def test_a_download_that_takes_too_long_is_ended_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "uv"
    uv.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.new && mv {tmp_path}/pid.new {tmp_path}/pid\nexec sleep 600\n"
    )
    uv.chmod(0o755)
    monkeypatch.setattr(wheelhouse, "find_uv_bin", lambda: str(uv))
    getting = asyncio.create_task(wheelhouse._uv(recipe(), ("pip",), "mlx==1.0"))
    await soon((tmp_path / "pid").exists)
    getting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await getting
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    monkeypatch.setattr(wheelhouse, "UV_SECONDS", 0.05)
    with pytest.raises(Refused, match=r"^mlx==1\.0: uv did not end within 0\.05 s$") as refused:
        await wheelhouse._uv(recipe(), ("pip",), "mlx==1.0")
    assert refused.value.code == "RuntimeUnavailable"


async def test_what_uv_says_first_and_last_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "uv"
    uv.write_text(
        "#!/bin/sh\nprintf '\\n \\nerror:   no such\\n in between\\n  hint: %s\\n\\n' \"$*\" >&2\nexit 2\n"
    )
    uv.chmod(0o755)
    monkeypatch.setattr(wheelhouse, "find_uv_bin", lambda: str(uv))
    with pytest.raises(Refused) as refused:
        await wheelhouse._uv(recipe(), ("pip", "install"), "mlx==1.0")
    assert str(refused.value) == "the controller cannot get mlx==1.0: error: no such; hint: pip install"
    for lines, text in (("one", "one"), (r"one\ntwo", "one; two")):
        uv.write_text(f"#!/bin/sh\nprintf '{lines}' >&2\nexit 2\n")
        with pytest.raises(Refused, match=f"cannot get mlx==1.0: {text}$"):
            await wheelhouse._uv(recipe(), (), "mlx==1.0")
    uv.write_text("#!/bin/sh\necho said >&2\n")
    await wheelhouse._uv(recipe(), (), "mlx==1.0")


@pytest.mark.parametrize("told", ["", "0"])
async def test_uv_trusts_what_the_system_trusts_unless_it_is_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\nprintf "$UV_SYSTEM_CERTS" >&2\nexit 2\n')
    uv.chmod(0o755)
    monkeypatch.setattr(wheelhouse, "find_uv_bin", lambda: str(uv))
    monkeypatch.delenv("UV_SYSTEM_CERTS", raising=False)
    if told:
        monkeypatch.setenv("UV_SYSTEM_CERTS", told)
    with pytest.raises(Refused, match=f"{told or '1'}$"):
        await wheelhouse._uv(recipe(), (), "mlx==1.0")


async def test_what_is_being_got_is_told_before_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    async def uv(recipe: object, words: Sequence[str], what: str) -> None:
        said.append(what)
        if words[0] == "python":
            (Path(words[words.index("--install-dir") + 1]) / "cpython" / "bin").mkdir(parents=True)
        else:
            Path(words[words.index("--target") + 1], "module.py").touch()

    monkeypatch.setattr(wheelhouse, "_uv", uv)
    made = recipe()
    packs = await Wheelhouse(tmp_path, {}).packs(made, said.append)
    python = f"cpython-{made.python}-{made.platform.python}"
    assert said == [
        f"getting Python {made.python} for {KIND}",
        f"the interpreter {python}",
        f"getting mlx==1.0 for {KIND}: 1 of 2",
        f"mlx==1.0 for {KIND}",
        f"getting mlx-lm==1.0 for {KIND}: 2 of 2",
        f"mlx-lm==1.0 for {KIND}",
    ]
    assert [pack.folder for pack in packs] == ["", *[f"lib/python{made.minor}/site-packages"] * 3]
