"""The machine of an agent, as the agent itself asks it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reconciler.agent.local_host import LocalHost, Settings
from reconciler.wire.launch import Exit, LaunchSpec, Phase, Progress, RankId
from reconciler.wire.node import FetchWeights, Gone, HeldBy, ShimState
from reconciler.wire.paths import shim_socket
from reconciler.wire.weights import FetchProblem, FetchSource, hub_path, partial_folder
from tests.agent.bench import NO_RUNTIME, launch, soon

pytestmark = pytest.mark.processes

ID = RankId("llama", 0, 1, 0)
PATH = hub_path("org/tiny", "a" * 40)


class Node:
    """The place of an agent, and its machine."""

    def __init__(self, home: Path, python: str = str(NO_RUNTIME)) -> None:
        self.home = home
        self.settings = Settings(
            "node-a", home, home / "models", home / "run", python, ("python3", f"{home}/agent-7.pyz"), HeldBy.LAUNCHD
        )  # fmt: skip
        self.host = LocalHost(self.settings)
        self.news: list[bool] = []

    def spec(self, socket: str = "") -> LaunchSpec:
        return launch(ID, socket or str(self.home / "run" / "r.sock"))


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="r-") as made:
        yield Path(made)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path)
    (tmp_path / "run").mkdir()
    made.host.begin(made.news.append)
    assert made.host.ranks() == []
    yield made
    made.host.end()


async def test_a_model_is_reported_with_its_fetch_where_there_was_one(tmp_path: Path) -> None:
    node = Node(tmp_path, python="/no/such/python")
    node.host.begin(node.news.append)
    assert node.host.runtime() == {}
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    report = node.host.model("tiny")
    assert (report.path, report.present, report.fetch) == ("tiny", True, None)
    node.host.fetch(FetchWeights(1, PATH, FetchSource("org/tiny", "a" * 40)))
    report = node.host.model(PATH)
    assert (report.path, report.present) == (PATH, False)
    assert report.fetch is not None
    assert report.fetch.progress.problem == FetchProblem.NO_CLIENT
    node.host.end()


async def test_weights_are_listed_and_discarded_but_not_while_they_are_fetched(
    node: Node, tmp_path: Path
) -> None:
    folder = tmp_path / "models" / PATH
    folder.mkdir(parents=True)
    assert [kept.path for kept in node.host.stored_weights(())] == [PATH]
    node.host.discard(PATH)
    assert not folder.exists()
    partial_folder(folder).mkdir()
    sleeps = tmp_path / "sleeps"
    sleeps.write_text("#!/bin/sh\nexec /bin/cat\n")
    sleeps.chmod(0o755)
    fetching = Node(tmp_path, str(sleeps))
    fetching.host.begin(fetching.news.append)
    fetching.host.fetch(FetchWeights(1, PATH, FetchSource("org/tiny", "a" * 40)))
    with pytest.raises(ValueError, match="is being fetched"):
        fetching.host.discard(PATH)
    fetching.host.end()
    free, size = node.host.room()
    assert free is not None
    assert 0 <= free < size


async def test_an_agent_knows_who_it_is(node: Node) -> None:
    found = node.host.identity()
    assert (found.agent_file, found.held_by, found.token) == ("agent-7.pyz", HeldBy.LAUNCHD, 0)
    assert (found.python, found.runtime, found.run_directory) == (
        str(NO_RUNTIME),
        None,
        str(node.home / "run"),
    )
    assert found.memory_bytes > 2**28
    assert found.cpus >= 1
    assert found.boot_id == node.host.boot_id()
    assert found.agent_id != node.host.identity().agent_id


def test_the_tools_of_an_agent_are_those_of_its_shims(tmp_path: Path) -> None:
    settings = Node(tmp_path).settings
    assert settings.started_as("shim") == ["python3", f"{tmp_path}/agent-7.pyz", "shim"]
    other = Settings("a", tmp_path, tmp_path, tmp_path, "p", ("agent",), tools=("/a", "/b"))
    assert other.started_as("spare") == ["agent", "spare", "--tools", "/a:/b"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "fence.json: Expecting"),
        ("[7]", "fence.json: expected an object with the number 'token'"),
        ('{"token": "7"}', "fence.json: expected an object with the number 'token'"),
        (" " * 5000, "fence.json has more than 4096 bytes"),
    ],
)
async def test_a_token_is_kept_and_one_that_cannot_be_read_is_no_token(
    node: Node, content: str, problem: str
) -> None:
    assert node.host.token() == 0
    node.host.save_token(7)
    assert (node.host.token(), Node(node.home).host.token()) == (7, 7)
    (node.home / "fence.json").write_text(content)
    with pytest.raises(ValueError, match=problem):
        node.host.token()


async def test_a_rank_is_on_disk_from_its_creation_to_its_removal(node: Node) -> None:
    host, run = node.host, node.home / "run"
    host.create(node.spec())
    assert host.ranks() == [ID]
    assert host.spec(ID) == node.spec()
    assert (host.state(ID), host.process(ID)) == (None, None)
    assert host.words(ID) == "it printed no reason"
    assert host.read_log(ID, 100, None).text == ""
    state = ShimState(7, 8, 3.0, Progress(Phase.EXITED), exit=Exit(0, None, 9.0, "done"))
    host.write_state(ID, state)
    assert host.state(ID) == state
    folder = node.home / "ranks" / str(ID)
    (folder / "shim.log").write_text("Traceback\n  OSError: no space \n\n")
    assert host.words(ID) == "OSError: no space"
    (run / "r.sock").touch()
    (run / "other.sock").touch()
    host.remove(ID, str(run / "r.sock"))
    assert (host.ranks(), [path.name for path in run.iterdir()]) == ([], ["other.sock"])
    assert host.spec(ID) is None


async def test_the_socket_of_a_rank_is_only_removed_where_sockets_are(node: Node) -> None:
    elsewhere = node.home / "elsewhere.sock"
    elsewhere.touch()
    node.host.create(node.spec(str(elsewhere)))
    node.host.remove(ID, str(elsewhere))
    assert elsewhere.exists()


async def test_a_rank_of_another_boot_and_one_without_a_process_have_left_nothing(node: Node) -> None:
    node.host.create(node.spec())
    assert await node.host.leftovers_of(ID, (1,)) == (Gone.YES, "")
    (node.home / "ranks" / str(ID) / "process.json").write_text(
        '{"version": 1, "pid": 1, "birth": "boot-1 5"}'
    )
    assert await node.host.leftovers_of(ID, (1,)) == (Gone.YES, "")
    assert await node.host.states([1, 2**22 + 1]) == {1: "S"}


async def test_without_a_shim_there_is_no_connection(node: Node) -> None:
    node.host.create(node.spec())
    with pytest.raises(OSError, match="No such file"):
        node.host.connect(ID, lambda message: None, lambda: None)
    await soon(lambda: node.host.runtime() is not None)
    assert node.host.runtime() == {}
    assert node.news == [True]


async def test_of_connections_to_shims_that_were_made_nothing_is_kept(node: Node) -> None:
    taken: list[asyncio.StreamWriter] = []
    server = await asyncio.start_unix_server(
        lambda _, writer: taken.append(writer), shim_socket(str(node.settings.run_directory), ID)
    )
    for count in range(1, 5):
        node.host.connect(ID, lambda message: None, lambda: None)
        await soon(lambda count=count: len(taken) == count and node.host._connecting[-1].done())  # type: ignore[misc]
        assert len(node.host._connecting) == 1
    server.close()
    for writer in taken:
        writer.close()
