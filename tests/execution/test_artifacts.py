"""Artifacts of runs come home whole, in their own folder, and nowhere else."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.errors import Refused, Unreachable
from reconciler.execution import artifacts
from reconciler.execution.artifacts import RUNS_KEPT, fetch
from reconciler.execution.handlers import jobs
from reconciler.state import JobName, NodeName, RunId
from reconciler.state.job_steps import FetchArtifacts
from reconciler.state.jobs import Artifacts, Fetched, Run
from reconciler.wire.launch import RankId
from reconciler.wire.node import Artifact, ArtifactPiece, ListArtifacts, ReadArtifact
from reconciler.wire.node import Artifacts as ListedArtifacts

NODES = (NodeName("node-a"), NodeName("node-b"))
BIG = bytes(range(256)) * 10_000


@dataclass
class Nodes:
    """Has files by rank and path."""

    files: Mapping[int, Mapping[str, bytes]]
    away: set[NodeName] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes that are said instead of the real ones."""
    read: list[tuple[int, str, int]] = field(default_factory=list)
    left_out: tuple[str, ...] = ()
    """Said of every rank."""
    breaks_after: int = 10**9
    """Number of pieces after which nodes give no answer."""

    def _reach(self, node: NodeName) -> None:
        if node in self.away or len(self.read) >= self.breaks_after:
            raise Unreachable(f"{node} does not answer")

    async def listed(self, node: NodeName, rank: RankId) -> tuple[Sequence[tuple[str, int]], Sequence[str]]:
        self._reach(node)
        assert (rank.deployment, rank.replica, rank.epoch) == ("job_train", 3, 7)
        found = self.files.get(rank.rank, {})
        listed = [(path, self.sizes.get(path, len(content))) for path, content in found.items()]
        return listed, self.left_out

    async def piece(self, node: NodeName, rank: RankId, path: str, offset: int, bytes_max: int) -> bytes:
        self._reach(node)
        self.read.append((rank.rank, path, offset))
        return self.files[rank.rank][path][offset : offset + bytes_max]


def fetched(nodes: Nodes, home: Path, run: int = 3, patient: bool = True) -> Artifacts:
    step = FetchArtifacts(Run(RunId(JobName("train"), run), "f", 0.0), NODES, 7)
    return asyncio.run(fetch(step, nodes, home / "artifacts", patient))


@pytest.mark.parametrize(("text", "told"), [("", "2 files, 7 bytes"), ("node-b is away", "node-b is away")])
async def test_what_was_fetched_is_kept_with_its_run_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    found, kept = Artifacts(Fetched.PARTLY, 2, 7, text=text), list[Run]()
    step = FetchArtifacts(Run(RunId(JobName("train"), 3), "f", 0.0), NODES, 7, patient=False)
    asked: list[tuple[object, ...]] = []

    async def fetch_all(*given: object) -> Artifacts:
        asked.append(given)
        return found

    monkeypatch.setattr(artifacts, "fetch", fetch_all)
    tools: Any = SimpleNamespace(groups=SimpleNamespace(put_run=kept.append), artifacts=tmp_path)
    assert await jobs.fetch_artifacts(step, tools) == told
    assert kept == [replace(step.run, artifacts=found)]
    assert [(given[0], *given[2:]) for given in asked] == [(step, tmp_path, False)]


async def test_pieces_are_bytes_again_and_files_have_their_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = RankId("job_train", 3, 7, 1)
    asked: list[object] = []

    async def ask(_: object, link: object, message: object) -> object:
        asked.append((link, message))
        if isinstance(message, ListArtifacts):
            return ListedArtifacts((Artifact("a", 3, 1.0),), ("'b' is not a file",))
        return ArtifactPiece("YWJj", 3)

    monkeypatch.setattr(jobs, "ask", ask)
    tools: Any = SimpleNamespace(links=SimpleNamespace(link=lambda name: (f"to {name}", None)))
    source = jobs._Agents(tools)
    assert await source.listed(NODES[1], rank) == ([("a", 3)], ("'b' is not a file",))
    assert await source.piece(NODES[0], rank, "a", 5, 9) == b"abc"
    assert asked == [("to node-b", ListArtifacts(rank)), ("to node-a", ReadArtifact(rank, "a", 5, 9))]


def test_what_a_node_leaves_out_is_told(tmp_path: Path) -> None:
    found = fetched(Nodes({0: {"empty": b""}}, left_out=("'out' is not a file",)), tmp_path)
    assert (found.state, found.files) == (Fetched.PARTLY, 1)
    assert "rank 1: 'out' is not a file" in found.text


def test_the_files_of_all_ranks_come_home_and_are_private(tmp_path: Path) -> None:
    nodes = Nodes({0: {"out/model.bin": BIG, "empty": b""}, 1: {"log.txt": b"done\n"}})
    found = fetched(nodes, tmp_path)
    assert found == Artifacts(Fetched.DONE, 3, len(BIG) + 5)
    place = tmp_path / "artifacts" / "train" / "3"
    assert (place / "0" / "out" / "model.bin").read_bytes() == BIG
    assert (place / "0" / "empty").read_bytes() == b""
    assert (place / "1" / "log.txt").read_bytes() == b"done\n"
    for folder in (place.parent.parent, place.parent, place, place / "0", place / "0" / "out"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(list(place.rglob("*"))) == 6, "no draft is left"


HOSTILE = (
    "../outside", "a/../../outside", "/etc/passwd", "", "a//b", "a/", "./a", "a\nb", "a\x1b[2Jb", "a\x00b",
    "n" * 256, "a/" * 300 + "b", ".part-0123456789abcdef", "bad\udcff",
)  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_leads_elsewhere_is_not_taken_and_named_without_its_characters(
    tmp_path: Path, path: str
) -> None:
    nodes = Nodes({0: {path: b"evil", "good": b"good"}})
    found = fetched(nodes, tmp_path)
    assert (found.state, found.files) == (Fetched.PARTLY, 1)
    assert found.text.isprintable()
    assert found.text.isascii()
    assert "of rank 0: its " in found.text
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert [each.name for each in files] == ["good"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_bytes(b"mine")
    place = tmp_path / "artifacts" / "train" / "3" / "0"
    place.mkdir(parents=True)
    (place / "file").symlink_to(elsewhere / "secret")
    (place / "folder").symlink_to(elsewhere)
    found = fetched(Nodes({0: {"file": b"new", "folder/secret": b"evil"}}), tmp_path)
    assert (elsewhere / "secret").read_bytes() == b"mine"
    assert not (place / "file").is_symlink()
    assert (place / "file").read_bytes() == b"new"
    assert (found.state, found.files) == (Fetched.PARTLY, 1)
    assert "something else is in its place" in found.text


def test_a_link_in_the_place_of_a_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "train").symlink_to(tmp_path)
    with pytest.raises(OSError, match="is a link"):
        fetched(Nodes({0: {"a": b"1"}}), tmp_path)


def test_it_continues_where_it_was_interrupted(tmp_path: Path) -> None:
    content = {0: {"first": b"1", "big": BIG}, 1: {}}
    with pytest.raises(Unreachable):
        fetched(Nodes(content, breaks_after=2), tmp_path)
    nodes = Nodes(content)
    assert fetched(nodes, tmp_path) == Artifacts(Fetched.DONE, 2, len(BIG) + 1)
    assert nodes.read == [(0, "big", artifacts.PIECE_BYTES), (0, "big", 2 * artifacts.PIECE_BYTES)]
    assert (tmp_path / "artifacts/train/3/0/big").read_bytes() == BIG
    again = Nodes(content)
    fetched(again, tmp_path)
    assert again.read == [], "what is there is not fetched again"


def test_a_node_that_is_away_hinders_no_other_and_is_waited_for_only_with_patience(tmp_path: Path) -> None:
    nodes = Nodes({0: {"a": b"1"}, 1: {"b": b"22"}}, away={NODES[0]})
    with pytest.raises(Unreachable):
        fetched(nodes, tmp_path)
    assert (tmp_path / "artifacts/train/3/1/b").read_bytes() == b"22"
    found = fetched(nodes, tmp_path, patient=False)
    assert found == Artifacts(Fetched.PARTLY, 1, 2, "rank 0: node-a gave no answer")


@pytest.mark.parametrize(("said", "name"), [(10, "grown"), (1, "cut")])
def test_a_file_that_is_not_as_long_as_it_was_said_is_not_taken(tmp_path: Path, said: int, name: str) -> None:
    nodes = Nodes({0: {"a": b"four"}}, sizes={"a": said})
    found = fetched(nodes, tmp_path)
    if said > 4:
        assert (found.files, found.state) == (0, Fetched.PARTLY)
        assert "it changed while it was read" in found.text
    else:
        assert (found.files, found.size) == (1, 1), "no more than was listed"


def test_bounds_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "FILES_MAX", 3)
    monkeypatch.setattr(artifacts, "BYTES_MAX", 2**30)
    files = {str(number): b"x" for number in range(5)}
    found = fetched(Nodes({0: files, 1: files}), tmp_path)
    assert (found.files, found.state) == (3, Fetched.PARTLY)
    huge = fetched(Nodes({0: {"huge": b""}}, sizes={"huge": 2**30 + 1}), tmp_path / "other")
    assert huge.files == 0


@pytest.mark.parametrize(("last", "files"), [(4, 2), (5, 1)])
def test_so_many_bytes_of_a_run_are_fetched_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, files: int
) -> None:
    monkeypatch.setattr(artifacts, "BYTES_MAX", 10)
    found = fetched(Nodes({0: {"a": b"x" * 6}, 1: {"b": b"x" * last}}), tmp_path)
    assert (found.files, found.size) == (files, 6 + last * (files == 2))
    assert ("GiB of a run are not fetched" in found.text) == (files == 1)
    nothing = fetched(Nodes({0: {"a": b"x" * 10, "b": b""}}), tmp_path / "other")
    assert nothing.files == 2, "a file without bytes always has room"


def test_two_names_that_are_one_on_some_disks_are_not_mixed(tmp_path: Path) -> None:
    found = fetched(Nodes({0: {"Model": b"1", "model": b"22"}}), tmp_path)
    assert (found.files, found.size) == (1, 1)
    assert "in other letters" in found.text


def test_a_refusal_of_a_node_is_told(tmp_path: Path) -> None:
    class Older(Nodes):
        async def listed(
            self, node: NodeName, rank: RankId
        ) -> tuple[Sequence[tuple[str, int]], Sequence[str]]:
            raise Refused("Unknown", "this agent has no artifacts")

    found = fetched(Older({}), tmp_path)
    assert found.state is Fetched.PARTLY
    assert "rank 1 on node-b: this agent has no artifacts" in found.text


def test_artifacts_of_the_newest_runs_are_kept(tmp_path: Path) -> None:
    place = tmp_path / "artifacts" / "train"
    for number in range(1, RUNS_KEPT + 4):
        (place / str(number)).mkdir(parents=True)
        (place / str(number) / "file").write_bytes(b"1")
    (place / "notes").mkdir()
    fetched(Nodes({}), tmp_path)
    names = {each.name for each in place.iterdir()}
    assert names == {"notes", *map(str, range(4, RUNS_KEPT + 4))}
