"""The managed runtime of a machine that is reached over SSH: a real server, real archives, and uv."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

from reconciler.errors import Refused, Unreachable
from reconciler.remote.bootstrap import actions
from reconciler.remote.nodes import bootstrap
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.runtime import build
from reconciler.remote.runtime.agent_file import Bundle
from reconciler.remote.runtime.pinned_versions import Recipe, engine_digest, engine_files, pins, recipes
from reconciler.remote.runtime.wheelhouse import Pack, Wheelhouse
from reconciler.resources import Access, SshAccess
from reconciler.wire.node import Observe, StartRank
from tests.agent.bench import RANK, Bench, program, until
from tests.processes import command_of, listed
from tests.remote.supplies import WHEELS, here, recipe, settings, write_wheel
from tests.remote.test_bootstrapping import ask, observed_as, pids, replaced
from tests.remote.test_build import Machine
from tests.remote.test_ssh import Host, host  # noqa: F401 - the fixture

pytestmark = pytest.mark.second_tier


@pytest.fixture(scope="module")
def supplied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A controller's folder, and uv's settings for as long as the tests of this module run."""
    folder = tmp_path_factory.mktemp("supplies")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings(folder).items():
            patched.setenv(name, value)
        yield folder


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
async def packs(supplied: Path) -> tuple[Pack, ...]:
    return await _packs(supplied, recipe())


async def _packs(supplied: Path, made: Recipe) -> tuple[Pack, ...]:
    return await Wheelhouse(supplied / "house", {here().name: made}).packs(made, lambda text: None)


async def test_a_runtime_is_put_together_of_what_was_sent_and_works(
    machine: Machine, packs: tuple[Pack, ...]
) -> None:
    assert not await machine.build().built(recipe())
    await machine.build().ensure(recipe(), packs)
    assert await machine.build().built(recipe())
    assert machine.version(recipe()) == "1.0"
    assert machine.sent >= sum(pack.size for pack in packs)
    assert {"unpacking 1 of 4", "trying it"} < set(machine.messages)
    before = machine.sent
    await machine.build().ensure(recipe(), packs)
    assert machine.sent == before
    assert [path.name for path in (machine.root / "runtimes").iterdir()] == [recipe().key]


async def test_what_arrived_before_a_connection_broke_is_not_sent_again(
    machine: Machine, packs: tuple[Pack, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "PIECE_BYTES", 1_000_000)
    machine.cut_after = 3_500_000
    with pytest.raises(Unreachable, match="cut"):
        await machine.build().ensure(recipe(), packs)
    machine.cut_after, machine.sent = None, 0
    await machine.build().ensure(recipe(), packs)
    arrived = sum(pack.size for pack in packs) - machine.sent
    assert 3_000_000 - 1000 <= arrived <= 3_500_000
    assert machine.version(recipe()) == "1.0"


async def test_another_version_is_sent_only_as_far_as_it_differs(
    machine: Machine, supplied: Path, packs: tuple[Pack, ...]
) -> None:
    await machine.build().ensure(recipe(), packs)
    machine.sent = 0
    newer = await _packs(supplied, recipe("2.0"))
    await machine.build().ensure(recipe("2.0"), newer)
    assert machine.sent < 20_000
    assert (machine.version(recipe()), machine.version(recipe("2.0"))) == ("1.0", "2.0")


async def test_what_is_damaged_on_its_way_is_thrown_away_and_sent_again(
    machine: Machine, packs: tuple[Pack, ...]
) -> None:
    small = packs[1]
    part = machine.root / "packs" / f"{small.digest}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * (small.size - 1))
    with pytest.raises(Unreachable, match="did not arrive as it was sent"):
        await machine.build().ensure(recipe(), packs)
    await machine.build().ensure(recipe(), packs)
    assert machine.version(recipe()) == "1.0"


async def test_one_that_does_not_work_is_never_in_its_place(
    machine: Machine, packs: tuple[Pack, ...]
) -> None:
    with pytest.raises(Refused, match=r"mlx-lm") as refused:
        await machine.build().ensure(recipe(), tuple(pack for pack in packs if "mlx-lm" not in pack.name))
    assert refused.value.code == "RuntimeBroken"
    assert not await machine.build().built(recipe())


async def test_too_little_room_is_reported_before_anything_is_sent(
    machine: Machine, packs: tuple[Pack, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "SLACK_BYTES", 2**60)
    with pytest.raises(Refused, match="MiB are free: free disk space there") as refused:
        await machine.build().ensure(recipe(), packs)
    assert (refused.value.code, machine.sent) == ("DiskFull", 0)


async def test_old_runtimes_go_but_for_the_last_one_and_for_those_that_something_runs_from(
    machine: Machine, supplied: Path, packs: tuple[Pack, ...]
) -> None:
    await machine.build().ensure(recipe(), packs)
    runtimes = machine.root / "runtimes"
    for age, name in enumerate(("last", "older", "used", "let-in"), 1):
        (runtimes / name / "bin").mkdir(parents=True)
        os.utime(runtimes / name, (time.time() - 1000 * age,) * 2)
    sleeper = runtimes / "used" / "bin" / "python3"
    sleeper.symlink_to("/bin/sleep")
    (machine.home / ".ssh").mkdir()
    (machine.home / ".ssh" / "authorized_keys").write_text(f'command="{runtimes}/let-in/bin/python3" key\n')
    stale = machine.root / "packs" / f"{'0' * 64}.tar.gz"
    stale.write_bytes(b"")
    running = await asyncio.create_subprocess_exec(sleeper, "60")
    try:
        done = await machine.build().prune(recipe())
        assert (done.removed, set(done.used)) == (("older",), {"used", "let-in"})
        assert {path.name for path in runtimes.iterdir()} == {recipe().key, "last", "used", "let-in"}
        assert not stale.exists()
        assert len(list(stale.parent.iterdir())) == len(packs)
    finally:
        running.kill()
        await running.wait()
    assert (await machine.build().prune(recipe())).removed == ("used",)


async def test_what_cannot_be_got_is_said_in_the_words_of_uv(supplied: Path) -> None:
    with pytest.raises(Refused, match=r"cannot get mlx==9.9 for .*no version of mlx==9.9") as refused:
        await _packs(supplied, recipe("9.9"))
    assert refused.value.code == "RuntimeUnavailable"


async def test_the_parts_of_the_last_two_versions_are_kept(tmp_path: Path, supplied: Path) -> None:
    house = Wheelhouse(tmp_path, {})
    for version in ("3.0", "4.0", "5.0"):
        write_wheel(supplied / "wheels", "mlx", version, "mlx/core.py")
        write_wheel(supplied / "wheels", "mlx-lm", version, "mlx_lm/__init__.py")
        await house.packs(recipe(version), lambda text: None)
    assert sorted(path.name.partition("-cp")[0] for path in tmp_path.glob("mlx==*")) == [
        "mlx==4.0",
        "mlx==5.0",
    ]
    assert len(list(tmp_path.glob("python-*.tar.gz"))) == 1


async def test_a_node_without_a_runtime_of_its_owners_gets_one_over_ssh_and_its_agent_uses_it(
    host: Host,  # noqa: F811
    supplied: Path,
) -> None:
    house = Wheelhouse(supplied / "house", {here().name: recipe()})
    host.bundle = type(host.bundle)(host.bundle.name, host.bundle.content, house)
    access = host.access()
    assert isinstance(access.ssh, SshAccess)
    node = host.node(Access(ssh=access.ssh))
    messages: list[str] = []
    preview = await bootstrap.plan_bootstrap(node)
    assert preview.measures[0].act == actions.Build(PurePosixPath(host.root / "runtimes" / recipe().key))
    assert not host.root.exists()
    for measure in preview.own_actions:
        await bootstrap.carry_out(node, measure, messages.append)
    assert "trying it" in messages
    assert (await bootstrap.plan_bootstrap(node)).measures == (), "all was foreseen, the agent's Python too"
    assert await node.build_runtime(messages.append) == recipe().key
    await node.start_agent()
    link = await node.dial()
    try:
        report = await link.request(Observe(), timeout=20)
        while report.runtime is None:
            await asyncio.sleep(0.05)
            report = await link.request(Observe(), timeout=20)
    finally:
        await link.close()
    assert report.python == str(host.root / "runtimes" / recipe().key / "bin" / "python3")
    assert (report.runtime["mlx"], report.runtime["mlx-lm"]) == ("1.0", "1.0")
    assert (await node.prune_runtimes()).removed == ()
    with pytest.raises(Refused, match=r"spec\.python sets an interpreter"):
        await host.node().build_runtime(messages.append)


def managed_by(host: Host, supplied: Path, version: str) -> SshNode:  # noqa: F811
    """The machine for a controller whose runtime is of this version."""
    for name, module in WHEELS.items():
        write_wheel(supplied / "wheels", name, version, module)
    house = Wheelhouse(supplied / "house", {here().name: recipe(version)})
    host.bundle = Bundle(f"agent-{version}.pyz", host.bundle.content, house)
    access = host.access()
    assert isinstance(access.ssh, SshAccess)
    return host.node(Access(ssh=access.ssh))


async def test_a_rank_keeps_its_runtime_over_upgrades_and_when_it_has_ended_that_goes(
    host: Host,  # noqa: F811
    supplied: Path,
) -> None:
    def python(version: str) -> str:
        return str(host.root / "runtimes" / recipe(version).key / "bin" / "python3")

    node = managed_by(host, supplied, "1.0")
    await node.build_runtime(lambda text: None)
    await node.start_agent()
    spec = Bench(host.root).spec((python("1.0"), *program("say('ready')\nsleep()")[1:]), RANK)
    await ask(node, StartRank(1, spec))
    pid = pids(await observed_as(node, lambda report: bool(pids(report).get(RANK))))[RANK]
    for version in ("2.0", "3.0"):
        node = managed_by(host, supplied, version)
        await node.build_runtime(lambda text: None)
        after = await replaced(node)
        assert (after.python, after.agent_file) == (python(version), f"agent-{version}.pyz")
        assert command_of(int((host.root / "nodes/far/agent.lock").read_text())).startswith(
            python(version)
        ), "the agent lets go of older ones as well"
        assert pids(after) == {RANK: pid}
    done = await node.prune_runtimes()
    assert (done.removed, done.used) == ((), (recipe("1.0").key,))
    assert command_of(pid).startswith(python("1.0"))
    os.kill(pid, signal.SIGTERM)
    await observed_as(node, lambda report: not pids(report))
    await until(lambda: f"/{recipe('1.0').key}/" not in all_commands())
    assert (await node.prune_runtimes()).removed == (recipe("1.0").key,)
    left = {path.name for path in (host.root / "runtimes").iterdir()}
    assert left == {recipe("3.0").key, recipe("2.0").key}, "this one and the last before it"


def all_commands() -> str:
    return "\n".join(process.command for process in listed())


def test_the_pins_are_complete_and_of_the_versions_that_are_tested() -> None:
    constraints = dict(
        line.lower().replace("_", "-").split("==")
        for line in Path("constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    )
    for name, made in recipes().items():
        versions = dict(pin.split("==") for pin in pins(made.platform))
        system, machine = name.split("/")
        environment = {"sys_platform": made.platform.sys_platform, "platform_system": system}
        environment |= {
            "platform_machine": machine,
            "python_version": made.minor,
            "python_full_version": made.python,
        }
        wanted = {"mlx", "mlx-lm", "huggingface-hub"}
        for pinned, version in versions.items():
            if pinned.startswith("mlx") and pinned != "mlx-lm":
                assert version == distribution("mlx").version
                continue
            assert constraints[pinned] == version
            for requirement in map(Requirement, distribution(pinned).requires or ()):
                if requirement.marker is None or requirement.marker.evaluate({**environment, "extra": ""}):
                    wanted.add(requirement.name.lower().replace("_", "-"))
        assert wanted <= versions.keys() | {"mlx"}, name


def test_a_name_is_of_everything_that_a_runtime_is_made_of() -> None:
    names = {made.key for made in recipes().values()} | {recipe().key, recipe("2.0").key}
    assert len(names) == len(recipes()) + 2
    assert len(engine_digest()) == 12
    assert {name.split("/")[1] for name in engine_files()} == {
        "__init__.py",
        "fetcher",
        "launcher",
        "runner",
        "wire",
    }
