"""`trace`: follow an object from its commit to the processes that serve it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NotRequired, TypedDict, cast

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.kinds import RANK
from reconciler.cli.core.objects import chosen_by, fetch, key_of, name_of
from reconciler.cli.output.colour import Cell, painted
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.kind_columns import state
from reconciler.cli.output.table_layout import age, clip, plain, terminal_width
from reconciler.cli.output.typed import typed
from reconciler.wire import answers, objects
from reconciler.wire.admin import Get, ShowStatus

DEPLOYMENT: Final = "ModelDeployment"


@click.command()
@click.argument("what", nargs=-1, required=True, shell_complete=complete.objects)
@output_option()
@click.pass_obj
def trace(settings: Settings, what: tuple[str, ...], output: str | None) -> None:
    """Follow an object from its commit to the processes that serve it.

    Shows the commit that wrote it last, the operations on it, the objects that it uses or that use it, and its groups.
    Each group has its ranks with node, process and ports. A rank is followed back to its deployment.

    \b
    Examples:
      reconciler trace deployment/tiny
      reconciler trace node-a
      reconciler trace rank/tiny.0.3.1 -o json
    """
    chosen = chosen_by(settings.socket, what)
    with Client(settings.socket) as client:
        found = fetch(client, chosen)
        if found.missing:
            raise found.missing[0]
        cluster = _Cluster.seen(client)
        keys = dict.fromkeys(
            (DEPLOYMENT, i["deployment"]) if i["kind"] == RANK else key_of(i) for i in found.items
        )
        traced = [_traced(settings, cluster, *key) for key in keys]
    text = "\n\n".join("\n".join(_lines(_tree(each))) for each in traced)
    print_body(traced[0] if len(traced) == 1 else {"items": traced}, output, [text])


class _Commit(TypedDict):
    revision: str
    author: str
    at: float
    subject: str
    file: str
    inForce: bool


class _Related(TypedDict):
    object: str
    state: str


class _Operation(objects.StandingOperation, total=False):
    name: str


class _Rank(TypedDict):
    name: str
    phase: str
    node: str
    pid: int | None
    startedAt: str | None


class _Group(TypedDict):
    replica: str
    epoch: int
    phase: str
    ready: bool
    since: str
    nodes: list[str]
    transport: NotRequired[str]
    transportName: NotRequired[str]
    ports: NotRequired[str]
    ranks: list[_Rank]


class _Process(TypedDict):
    pid: int
    endpoint: str | None


class _Traced(TypedDict):
    object: str
    state: str
    commit: _Commit | None
    operations: list[_Operation]
    uses: list[_Related]
    usedBy: list[_Related]
    groups: list[_Group]
    ranks: list[_Rank]
    process: _Process | None


@dataclass(frozen=True, slots=True)
class _Cluster:
    """All answers of the controller at one time."""

    items: list[objects.Object]
    ranks: list[objects.Rank]
    operations: list[objects.Operation]
    status: answers.ControllerStatus

    @classmethod
    def seen(cls, client: Client) -> _Cluster:
        items, ranks = client.ask(Get())["items"], client.ask(Get("Rank"))["items"]
        return cls(items, ranks, client.ask(Get("Operation"))["items"], client.ask(ShowStatus()))

    def item(self, kind: str, name: str) -> objects.Object | None:
        return next((item for item in self.items if key_of(item) == (kind, name)), None)


def _traced(settings: Settings, cluster: _Cluster, kind: str, name: str) -> _Traced:
    item = cluster.item(kind, name)
    ranks = [
        _rank(rank)
        for rank in cluster.ranks
        if name == (rank["deployment"] if kind == DEPLOYMENT else rank["node"])
    ]
    groups = item["status"].get("groups", []) if item and item["kind"] == DEPLOYMENT else []
    return {
        "object": f"{kind.lower()}/{name}",
        "state": state(item) if item else "not in the manifests",
        "commit": _commit(settings, cluster, kind, name),
        "operations": [_operation(each) for each in cluster.operations if _is_about(each, kind, name)],
        "uses": list(_used(cluster, item)) if item else [],
        "usedBy": list(_users(cluster, kind, name)),
        "groups": [_group(name, each, ranks) for each in groups],
        "ranks": ranks if kind == "Node" else [],
        "process": _process(item) if item else None,
    }


# --- the facts ---------------------------------------------------------------------------------------


def _commit(settings: Settings, cluster: _Cluster, kind: str, name: str) -> _Commit | None:
    """Return the newest commit that changed the object; None if a folder is watched."""
    if not cluster.status["source"].startswith("git ") or not (settings.repo / "HEAD").exists():
        return None
    from reconciler.source.git import history
    from reconciler.source.git.repository import ClusterRepo

    repo = settings.away.repository() if settings.away else ClusterRepo(settings.repo)
    newest = next(history.changes(repo, (kind, name)), None)
    if newest is None:
        return None
    commit, revision = newest.commit, cluster.status["revision"]
    return {
        "revision": commit.revision,
        "author": commit.author,
        "at": commit.at,
        "subject": commit.subject,
        "file": newest.file,
        "inForce": len(revision) == len(commit.revision) and repo.is_ancestor(commit.revision, revision),
    }


def _is_about(operation: objects.Operation, kind: str, name: str) -> bool:
    target = operation["spec"]["target"]
    return (target["kind"], target["name"]) == (kind, name)


def _picked(fields: Mapping[str, object], names: str) -> dict[str, object]:
    """Return the fields with these names, separated by blanks, that are there."""
    return {name: fields[name] for name in names.split() if name in fields}


def _operation(operation: objects.Operation) -> _Operation:
    spec = _picked(operation["spec"], "verb by at reason until replicas")
    given = {name: value for name, value in spec.items() if value is not None}
    standing = operation["status"]["standing"]
    return cast("_Operation", {"name": name_of(operation), "standing": standing, **given})


def _used(cluster: _Cluster, item: objects.Object) -> Iterator[_Related]:
    if item["kind"] == DEPLOYMENT:
        model = cluster.item("Model", item["spec"]["model"])
        yield {
            "object": f"model/{item['spec']['model']}",
            "state": state(model) if model else "not in the manifests",
        }


def _users(cluster: _Cluster, kind: str, name: str) -> Iterator[_Related]:
    for other in cluster.items:
        uses = {
            "Model": other["kind"] == DEPLOYMENT and other["spec"]["model"] == name,
            "Node": other["kind"] == "Fabric" and name in str(other["spec"]["links"]),
            DEPLOYMENT: other["kind"] == "Gateway",
        }
        if uses.get(kind):
            yield {"object": f"{other['kind'].lower()}/{name_of(other)}", "state": state(other)}


def _group(name: str, group: objects.Group, ranks: Sequence[_Rank]) -> _Group:
    begin = f"{name}.{group['replica']}.{group['epoch']}."
    found = {
        "replica": f"{name}/{group['replica']}",
        **_picked(group, "epoch phase ready since nodes ports"),
        "ranks": [rank for rank in ranks if rank["name"].startswith(begin)],
        **_picked(group, "transport transportName"),
    }
    return cast("_Group", found)


def _rank(rank: objects.Rank) -> _Rank:
    return cast("_Rank", {"name": name_of(rank), **_picked(rank, "phase node pid startedAt")})


def _process(item: objects.Object) -> _Process | None:
    if item["kind"] != "Gateway" or not (pid := item["status"].get("pid")):
        return None
    return {"pid": pid, "endpoint": item["status"].get("endpoint")}


# --- as a tree ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Branch:
    text: str
    cell: str = ""
    """A state, shown in its colour after the text."""
    below: list[_Branch] = field(default_factory=list)


def _tree(traced: _Traced) -> _Branch:
    found = _Branch(traced["object"], _shaded(traced["state"]))
    commit = traced["commit"]
    if commit is None:
        found.below.append(_Branch("no commit: the controller reads a folder, or nothing has been committed"))
    else:
        from datetime import UTC, datetime

        since = age(datetime.fromtimestamp(commit["at"], UTC).isoformat())
        text = f"commit {commit['revision'][:10]}, {since} ago by {commit['author']}: {commit['subject']}"
        late = "" if commit["inForce"] else Cell.of(typed("not in force; see: reconciler plan"), "red")
        found.below.append(_Branch(text, late, [_Branch(commit["file"])]))
    found.below += [_Branch(_operation_text(each)) for each in traced["operations"]]
    found.below += [_Branch(f"uses {each['object']}", _shaded(each["state"])) for each in traced["uses"]]
    found.below += [_Branch(f"used by {each['object']}", _shaded(each["state"])) for each in traced["usedBy"]]
    found.below += [_group_branch(each) for each in traced["groups"]]
    found.below += [_rank_branch(each) for each in traced["ranks"]]
    if traced["process"]:
        found.below.append(
            _Branch(f"process {traced['process']['pid']}", traced["process"]["endpoint"] or "")
        )
    return found


def _operation_text(operation: _Operation) -> str:
    replicas = f" replicas {operation['replicas']}" if "replicas" in operation else ""
    until = f" until {operation['until']}" if "until" in operation else ""
    reason = f": {operation['reason']}" if operation["reason"] else ""
    what = f"{operation['verb']}{replicas}{until} by {operation['by']}"
    return f"operation {what} ({operation['standing']}){reason}"


def _group_branch(group: _Group) -> _Branch:
    ports = f", ports {group['ports']}" if group.get("ports") else ""
    transport = f", {group['transportName']}" if group.get("transportName") else ""
    text = f"group {group['replica']}, epoch {group['epoch']}, {age(group['since'])}{transport}{ports}"
    phase = group["phase"] if group["ready"] or group["phase"] != "ready" else "not served yet"
    return _Branch(text, _shaded(phase), [_rank_branch(rank) for rank in group["ranks"]])


def _rank_branch(rank: _Rank) -> _Branch:
    text = f"rank {rank['name']} on {rank['node']}, process {rank['pid']}, {age(rank['startedAt'])}"
    return _Branch(text, _shaded(rank["phase"]))


def _shaded(text: str) -> Cell:
    """Return a state in its colour."""
    if text.lower() == "ready":
        return Cell.of(text, "green")
    return Cell.of(text, "red" if text.startswith(("Stalled", "not in", "exited")) else "yellow")


def _lines(branch: _Branch, first: str = "", rest: str = "") -> Iterator[str]:
    width = max(20, terminal_width() - len(first))
    text = clip(plain(branch.text), width)
    left = max(0, width - len(text) - 3)
    cell = clip(plain(branch.cell), left) if left > 8 else ""
    yield f"{first}{text}" + (f"   {painted(cell, branch.cell)}" if cell else "")
    for number, each in enumerate(branch.below, 1):
        last = number == len(branch.below)
        yield from _lines(each, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")
