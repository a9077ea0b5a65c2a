"""Reads the logs of ranks through the controller: of all ranks of a group, and of later groups."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from reconciler.cli.core.client import Client
from reconciler.cli.core.kinds import RANK, kind_named, not_found
from reconciler.cli.core.objects import LastingClient, note_unobserved
from reconciler.errors import Refused, Unreachable, few_names
from reconciler.wire import answers
from reconciler.wire.admin import Get, ReadRankLog
from reconciler.wire.launch import Phase, RankId
from reconciler.wire.objects import Rank

from .merge import BEFORE_EVERYTHING, Line, LineReader, Merge, Wanted
from .printer import Printer

PIECE_BYTES = 1024 * 1024
FOLLOW_SECONDS = 0.5
LAST_BYTES_A_LINE = 1024
"""A high estimate of a line's length, to decide how much to read for a number of last lines."""

Began = tuple[RankId, str | None]
"""A rank, and when it was started, if that is known."""


@dataclass(frozen=True, slots=True)
class Target:
    """The ranks whose lines are wanted: one rank, or ranks of deployments."""

    deployments: tuple[str, ...]
    id: RankId | None
    replica: int | None
    rank: int | None
    previous: bool

    @classmethod
    def named(cls, text: str, how: dict[str, Any]) -> Target:
        """Return the target that a command line means. Raises ``UsageError``."""
        word, slash, name = text.rpartition("/")
        if slash and name.isdecimal() and how["replica"] is None and not _is_kind(word):
            return cls((word,), None, int(name), how["rank"], how["previous"])
        kind = kind_named(word) if slash else None
        if kind not in (None, "ModelDeployment", "Rank"):
            raise click.UsageError(f"{text}: only deployments and ranks have logs")
        rank = None if kind == "ModelDeployment" else _rank_id(name)
        if kind == "Rank" and rank is None:
            raise click.UsageError(
                f"{text}: expected a rank such as tiny.0.3.1 (deployment, replica, epoch, rank)"
            )
        if rank is not None and (how["previous"] or how["replica"] is not None or how["rank"] is not None):
            raise click.UsageError(
                f"{text} is one rank, but --replica, --rank and --previous need a deployment"
            )
        deployment = rank.deployment if rank else name
        return cls((deployment,), rank, how["replica"], how["rank"], how["previous"])

    @classmethod
    def labelled(cls, deployments: tuple[str, ...], how: dict[str, Any]) -> Target:
        return cls(deployments, None, how["replica"], how["rank"], how["previous"])

    @property
    def name(self) -> str:
        return few_names(self.deployments)

    def takes(self, row: Rank) -> bool:
        """Return whether a rank of any epoch is meant."""
        if self.id is not None:
            return row["metadata"]["name"] == str(self.id)
        return self.replica in (None, row["replica"]) and self.rank in (None, row["rank"])


def _is_kind(word: str) -> bool:
    try:
        kind_named(word)
    except click.UsageError:
        return False
    return True


def _rank_id(name: str) -> RankId | None:
    try:
        return RankId.parse(name)
    except ValueError:
        return None


def _replica(row: Rank) -> tuple[str, int]:
    return row["deployment"], row["replica"]


def _began(row: Rank) -> Began:
    return RankId.parse(row["metadata"]["name"]), row["startedAt"]


def _begin(body: answers.LogPiece) -> int:
    """Return the byte at which a text begins. If the agent is too old to say so, it assumes UTF-8."""
    begin = body.get("begin")
    return begin if begin is not None else body["offset"] - len(body["text"].encode())


class Source:
    """One rank's log, with the offset up to which it was read."""

    def __init__(self, id: RankId, began: str | None) -> None:
        self.id = id
        self._lines = LineReader(str(id), datetime.fromisoformat(began) if began else BEFORE_EVERYTHING)
        self._offset = 0
        self.node = ""

    def backlog(self, client: Client, wanted: Wanted) -> list[Line]:
        """Return the wanted lines that exist already."""
        enough = (wanted.tail or 0) * LAST_BYTES_A_LINE
        if wanted.since != BEFORE_EVERYTHING or wanted.tail is None or enough > PIECE_BYTES:
            return wanted.of(self.more(client))
        body = self._read(client, None)
        text = body["text"]
        if _begin(body) > 0:  # within a line
            text = text.partition("\n")[2]
        return wanted.of([*self._lines.feed(text), *self.more(client)])

    def more(self, client: Client) -> list[Line]:
        found = []
        while text := self._read(client, self._offset)["text"]:
            found += self._lines.feed(text)
        return found

    def end(self) -> list[Line]:
        return self._lines.end()

    def _read(self, client: Client, offset: int | None) -> answers.LogPiece:
        body = client.ask(ReadRankLog(self.id, PIECE_BYTES, offset))
        self._offset = body["offset"]
        self.node = body["node"]
        return body


class LogReading:
    """Reads the logs of ranks, once or as they grow."""

    def __init__(self, client: LastingClient, wanted: Wanted) -> None:
        self._client = client
        self._wanted = wanted
        self._sources: dict[str, Source] = {}
        self._merge = Merge()

    def _ends(self) -> list[list[Line]]:
        return [source.end() for source in self._sources.values()]


class RankReading(LogReading):
    """Reads the logs of the ranks of a target."""

    def __init__(self, client: LastingClient, target: Target, wanted: Wanted) -> None:
        super().__init__(client, wanted)
        self._target = target
        self._done: set[str] = set()

    def print(self, how: dict[str, Any]) -> None:
        """Print the existing lines; with ``follow`` continue until Ctrl-C. Raises ``Refused``."""
        chosen = self._chosen()
        if not chosen:
            note_unobserved(RANK, self._client.ask(Get("Rank")))
            self._check_known()
            if not how["follow"]:
                raise self._nothing()
            click.echo(f"note: {self._nothing()}; waiting for its next group", err=True)
        show = Printer(how, self._target.id is None and (len(chosen) > 1 or how["follow"]))
        self._take(chosen)
        backlog = [source.backlog(self._client, self._wanted) for source in self._sources.values()]
        if not how["follow"]:
            backlog += self._ends()
        show.nodes.update({str(source.id): source.node for source in self._sources.values()})
        show(self._merge.merged(backlog))
        while how["follow"] and (self._sources or self._target.id is None):
            time.sleep(FOLLOW_SECONDS)
            self._follow(show)

    def _follow(self, show: Printer) -> None:
        try:
            rows = self._rows()
            found = [self._grown(name, rows) for name in list(self._sources)]
            self._take(self._chosen(rows))
        except Unreachable:
            self._client.reconnect()
            return
        show.nodes.update({str(source.id): source.node for source in self._sources.values()})
        show(self._merge.merged(found))

    def _grown(self, name: str, rows: list[Rank]) -> list[Line]:
        """Return a rank's new lines, including the last ones if it has ended meanwhile."""
        source = self._sources[name]
        ended = not any(row["metadata"]["name"] == name and row["phase"] != Phase.EXITED for row in rows)
        try:
            found = source.more(self._client)
        except Refused as refused:
            if refused.code != "NotFound":
                return []  # its node does not answer now; try again later
            found, ended = [], True
        if not ended:
            return found
        del self._sources[name]
        self._done.add(name)
        return [*found, *source.end()]

    def _take(self, chosen: list[Began]) -> None:
        for id, began in chosen:
            if str(id) not in self._sources and str(id) not in self._done:
                self._sources[str(id)] = Source(id, began)

    # --- which ranks ---

    def _rows(self, every: bool = False) -> list[Rank]:
        """Return the ranks of the target; with ``every``, all ranks of their deployments."""
        bodies = (self._client.ask(Get("Rank", each, ended=True)) for each in self._target.deployments)
        return [row for body in bodies for row in body["items"] if every or self._target.takes(row)]

    def _chosen(self, rows: list[Rank] | None = None) -> list[Began]:
        """Return the ranks of each replica's newest group, or of the one before it."""
        if rows is None:
            rows = self._rows()
        if self._target.id is not None:
            return [_began(row) for row in rows] or [(self._target.id, None)]
        epochs: dict[tuple[str, int], list[int]] = {}
        for row in rows:
            epochs.setdefault(_replica(row), []).append(row["epoch"])
        place = -2 if self._target.previous else -1
        wanted = {replica: sorted(set(found))[place:][:1] for replica, found in epochs.items()}
        if self._target.previous:
            wanted = {replica: found for replica, found in wanted.items() if len(set(epochs[replica])) > 1}
        return [_began(row) for row in rows if row["epoch"] in wanted.get(_replica(row), ())]

    def _check_known(self) -> None:
        """Raise ``Refused`` for a deployment that does not exist and has no rank left."""
        items = self._client.ask(Get("ModelDeployment"))["items"]
        known = [item["metadata"]["name"] for item in items]
        for name in self._target.deployments:
            if name not in known and not self._rows():
                if any(item["metadata"]["name"] == name for item in self._client.ask(Get("Job"))["items"]):
                    text = f'modeldeployments "{name}" not found; it is a job: reconciler logs job/{name}'
                    raise Refused("NotFound", text)
                raise not_found("ModelDeployment", name, known)

    def _nothing(self) -> Refused:
        name = self._target.name
        target, rows = self._target, self._rows(every=True)
        if target.rank is not None and rows:
            known = sorted({row["rank"] for row in rows})
            return Refused(
                "NotFound",
                f"{name} has no rank {target.rank} now; choose one of {', '.join(map(str, known))},"
                f" such as: --rank {known[0]}",
            )
        which = "" if self._target.replica is None else f"replica {self._target.replica} of "
        if self._target.previous:
            return Refused("NotFound", f"no node has logs of a group of {which}{name} before the current one")
        return Refused(
            "NotFound", f"{which}{name} has no group now; see: reconciler describe deployment {name}"
        )
