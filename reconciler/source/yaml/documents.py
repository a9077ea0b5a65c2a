"""Parses manifests into typed, validated documents, and reports all mistakes at once."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from typing import TypeVar

from pydantic import ValidationError

from reconciler.errors import InvalidManifests, Problem
from reconciler.resources import API_VERSION, KINDS, Fabric, Gateway, Job, Manifest, ModelDeployment
from reconciler.resources.api_key import ApiKey
from reconciler.resources.job import JobFile
from reconciler.resources.job_files import FILES_BYTES_MAX
from reconciler.source.yaml import parser
from reconciler.source.yaml.parser import Node, Tree

from . import objects, pieces
from .beside import missing
from .field_errors import dotted, explain, suggest
from .pieces import Absent, Beside
from .plain import as_yaml
from .syntax_errors import clip

M = TypeVar("M", bound=Manifest)

SET_BY_US = "this is set when a commit is read: remove it"
PROBLEMS_MAX = 1000
"""The most problems to report for all files together: a file of the wrong kind may have endless ones."""


@dataclass(frozen=True, slots=True)
class Document:
    """One manifest and its origin."""

    file: str
    index: int
    """Index among the pieces between the file's ``---`` lines, from 0."""
    line: int
    """Line on which its content begins, from 1."""
    manifest: Manifest
    text: str
    """Its own source text, with comments."""

    @property
    def key(self) -> tuple[str, str]:
        """Return kind and name, which are unique."""
        return self.manifest.kind, self.manifest.metadata.name


@dataclass(frozen=True, slots=True)
class _Read:
    document: Document
    root: Node

    def place(self, *path: str | int) -> tuple[int, int]:
        node = self.root
        for step in path:
            node = node.children[step]
        return node.line, node.column


Kinds = Mapping[str, type[Manifest]]


def load(files: Mapping[str, bytes], *, part: bool = False, kinds: Kinds = KINDS) -> tuple[Document, ...]:
    """Return every document of ``files`` (contents by name), sorted by file name.

    Jobs get their own path, and the content of the files that they name, which are ``beside.Beside``. Else names are used
    in messages only. ``part``: further documents may have the objects that these refer to, and further files may be there.
    ``kinds``: the permitted kinds. Raises ``InvalidManifests`` with every problem of every file.
    """
    problems: list[Problem] = []
    found: list[_Read] = []
    for file in sorted(name for name, content in files.items() if not isinstance(content, Beside)):
        found += [
            _complete(read, files, part, problems) for read in _read_file(file, files[file], kinds, problems)
        ]
        if len(problems) > PROBLEMS_MAX:
            listed = sorted(problems)[:PROBLEMS_MAX]
            last = listed[-1]
            text = "further problems are not listed"
            raise InvalidManifests((*listed, Problem(last.file, last.line, last.column, "", text)))
    if len(found) > pieces.DOCUMENTS_MAX:
        late = found[pieces.DOCUMENTS_MAX].document
        problems.append(Problem(late.file, late.line, 1, "", f"more than {pieces.DOCUMENTS_MAX} documents"))
    problems += _across(found, part)
    if problems:
        raise InvalidManifests(tuple(problems))
    return tuple(read.document for read in found)


def all_of(files: Mapping[str, bytes], kind: type[M]) -> dict[str, M]:
    """Return the manifests of one kind by name. Raises like ``load``."""
    return {found.key[1]: found.manifest for found in load(files) if isinstance(found.manifest, kind)}


def parse(file: str, piece: pieces.Piece) -> Tree:
    return parser.parse(file, piece.body, piece.line, piece.column)


def _read_file(file: str, content: bytes, kinds: Kinds, problems: list[Problem]) -> list[_Read]:
    text = pieces.decode(file, content)
    if isinstance(text, Problem):
        problems.append(text)
        return []
    flaw = objects.flaw_of_json(text) if objects.is_json(file) else None
    if flaw is not None:
        problems.append(Problem(file, flaw[0], flaw[1], "", flaw[2]))
        return []
    found: list[_Read] = []
    index = 0
    parts = pieces.split(text)
    if len(parts) > pieces.DOCUMENTS_MAX:
        late = parts[pieces.DOCUMENTS_MAX].line
        problems.append(Problem(file, late, 1, "", f"more than {pieces.DOCUMENTS_MAX} documents"))
        return []
    for piece in parts:
        tree = parse(file, piece)
        problems += tree.problems
        roots = objects.objects_of(tree)
        for number, root in enumerate(roots):
            whole = root is tree.root and not objects.is_json(file)
            manifest = _typed(file, objects.ignoring_status(root), tree.problems, kinds, problems)
            if manifest is not None:
                text_of = piece.body if whole else as_yaml(root.value)
                line = tree.first_line if root is tree.root else root.line
                document = Document(file, index + number, line, manifest, text_of)
                found.append(_Read(document, root))
        index += len(roots) if roots or tree.root is not None else 1  # a list without items makes no piece
    return found


def _typed(
    file: str, root: Node, known: tuple[Problem, ...], kinds: Kinds, problems: list[Problem]
) -> Manifest | None:
    """Return the manifest in a tree; new problems (not ``known``) are added to ``problems``, one per place."""
    reported = {(problem.line, problem.column) for problem in known}
    fresh = _check_kind(file, root, kinds)
    manifest: Manifest | None = None
    if not fresh:
        kind = kinds[root.value["kind"]]
        try:
            manifest = kind.model_validate_json(json.dumps(root.value))
        except ValidationError as error:
            fresh = list(explain(file, root, kind, error))
    problems += [problem for problem in fresh if (problem.line, problem.column) not in reported]
    return None if known else manifest


def _complete(read: _Read, files: Mapping[str, bytes], part: bool, problems: list[Problem]) -> _Read:
    """Return a Job with the fields that are set when a commit is read; every other object as it is."""
    job = read.document.manifest
    if not isinstance(job, Job):
        return read
    contents: list[JobFile] = []
    for at, file in enumerate(job.spec.files):
        content = files.get(file.path)
        if file.data is not None:
            problems.append(_problem(read, SET_BY_US, "spec", "files", at, "data"))
        elif isinstance(content, Absent) or (content is None and not part):
            reason = missing(file.path, ()) if content is None else content
            problems.append(_problem(read, reason.decode(), "spec", "files", at))
        data = None if content is None else base64.b64encode(content).decode()
        contents.append(file.model_copy(update={"data": data}))
    if job.spec.manifest_path is not None:
        problems.append(_problem(read, SET_BY_US, "spec", "manifestPath"))
    if sum(len(each.data or "") for each in contents) * 3 // 4 > FILES_BYTES_MAX:
        text = f"expected at most {FILES_BYTES_MAX // 2**20} MiB in all files together"
        problems.append(_problem(read, text, "spec", "files"))
    made = {"manifest_path": read.document.file, **({"files": tuple(contents)} if contents else {})}
    spec = job.spec.model_copy(update=made)
    return replace(read, document=replace(read.document, manifest=job.model_copy(update={"spec": spec})))


def _check_kind(file: str, root: Node, known: Kinds) -> list[Problem]:
    """Return problems of ``apiVersion`` and ``kind`` that make it impossible to check the rest."""
    if not isinstance(root.value, dict):
        text = 'expected a mapping that begins with "apiVersion" and "kind", got '
        return [Problem(file, root.line, root.column, "", text + ("a list" if root.children else "text"))]
    kinds = f"expected one of {', '.join(known)}"
    kind = root.children.get("kind")
    if kind is None:
        found = [Problem(file, root.line, root.column, "kind", f"required field is missing; {kinds}")]
    elif not isinstance(kind.value, str):
        found = [Problem(file, kind.line, kind.column, "kind", kinds)]
    elif kind.value in known:
        return []
    else:
        nearest = suggest(kind.value, known)
        hint = f'did you mean "{nearest}"?' if nearest else kinds
        joint = ", " if nearest else "; "
        text = f'unknown kind "{clip(kind.value)}"{joint}{hint}'
        found = [Problem(file, kind.line, kind.column, "kind", text)]
    version = root.children.get("apiVersion")
    if version is None:
        text = f'required field is missing; expected "{API_VERSION}"'
        found.append(Problem(file, root.line, root.column, "apiVersion", text))
    elif version.value != API_VERSION:
        text = f'expected "{API_VERSION}", got "{clip(str(version.value))}"'
        found.append(Problem(file, version.line, version.column, "apiVersion", text))
    return found


# --- across documents ------------------------------------------------------------------------------


def _across(found: list[_Read], part: bool) -> list[Problem]:
    """Return conflicts between objects, reported at the later one with the place of the earlier."""
    problems: list[Problem] = []
    first: dict[tuple[str, str], Document] = {}
    gateway: Document | None = None
    distinct = []
    for read in found:
        document = read.document
        earlier = first.setdefault(document.key, document)
        kind, name = document.key
        if earlier is not document:
            text = f'{kind} "{name}" already exists, at {_at(earlier)}'
            problems.append(_problem(read, text, "metadata", "name"))
            continue
        distinct.append(read)
        if isinstance(document.manifest, Gateway):
            if gateway is not None:
                text = f'only one Gateway is allowed; "{gateway.key[1]}" is at {_at(gateway)}'
                problems.append(_problem(read, text, "kind"))
            gateway = gateway or document
    return [*problems, *_names_for_clients(distinct), *_secrets(distinct), *_cables(distinct, part)]


def _names_for_clients(found: list[_Read]) -> Iterator[Problem]:
    """Yield duplicates among deployment names and aliases, one namespace: clients use both as ``model``."""
    deployments = [
        (read, each) for read in found if isinstance(each := read.document.manifest, ModelDeployment)
    ]
    owners: dict[str, str] = {}
    for read, each in deployments:
        name = each.metadata.name
        owners[name] = f'the name of ModelDeployment "{name}", at {_at(read.document)}'
    for read, each in deployments:
        mine = f'an alias of ModelDeployment "{each.metadata.name}", at {_at(read.document)}'
        for index, alias in enumerate(each.spec.serving.aliases):
            if alias in owners:
                text = f'"{clip(alias)}" is already {owners[alias]}'
                yield _problem(read, text, "spec", "serving", "aliases", index)
            else:
                owners[alias] = mine


def _secrets(found: list[_Read]) -> Iterator[Problem]:
    """Yield secrets that two ApiKeys share: a client that sends one could be either."""
    owners: dict[str, str] = {}
    for read in found:
        key = read.document.manifest
        if not isinstance(key, ApiKey):
            continue
        places: list[tuple[str, tuple[str | int, ...]]] = [(key.spec.hash, ("spec", "hash"))]
        places += [(each.hash, ("spec", "previous", at, "hash")) for at, each in enumerate(key.spec.previous)]
        mine = f'a secret of ApiKey "{key.metadata.name}", at {_at(read.document)}'
        for known, path in places:
            owner = owners.setdefault(known, mine)
            if owner != mine:
                text = f"this is already {owner}; make a new one: reconciler key create {key.metadata.name}"
                yield _problem(read, text, *path)


def _cables(found: list[_Read], part: bool) -> Iterator[Problem]:
    """Yield problems of Fabrics that share a cable or an address, or name unknown Nodes."""
    nodes = {name for kind, name in (read.document.key for read in found) if kind == "Node"}
    fabrics = [(read, fabric) for read in found if isinstance(fabric := read.document.manifest, Fabric)]
    if not part:
        yield from _unknown(fabrics, nodes)
    yield from _shared(fabrics)
    yield from _overlapping(fabrics)


Fabrics = list[tuple[_Read, Fabric]]


def _ends(fabric: Fabric) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Yield each end of each link, and its path."""
    for number, pair in enumerate(fabric.spec.links):
        for side, end in enumerate(pair):
            yield end, ("spec", "links", number, side)


def _unknown(fabrics: Fabrics, nodes: set[str]) -> Iterator[Problem]:
    for read, fabric in fabrics:
        for end, path in _ends(fabric):
            name = end.rpartition("/")[0]
            if name not in nodes:
                nearest = suggest(name, sorted(nodes))
                advice = (
                    f'did you mean "{nearest}"? If the Node was removed, remove its links from the Fabric'
                    if nearest
                    else "add the Node first, or remove its links from the Fabric"
                )
                yield _problem(read, f'there is no Node "{name}"; {advice}', *path)


def _shared(fabrics: Fabrics) -> Iterator[Problem]:
    """Yield receptacles that an earlier Fabric already uses."""
    owners: dict[str, Document] = {}
    for read, fabric in fabrics:
        for end, path in _ends(fabric):
            owner = owners.setdefault(end, read.document)
            if owner is not read.document:
                text = f'{end} already has a cable in Fabric "{owner.key[1]}", at {_at(owner)}'
                yield _problem(read, text, *path)


def _overlapping(fabrics: Fabrics) -> Iterator[Problem]:
    """Yield pools that overlap the pool of an earlier Fabric."""
    before: list[tuple[Document, IPv4Network]] = []
    for read, fabric in fabrics:
        network = fabric.spec.addressing.network
        if network is None:
            continue
        for owner, other in before:
            if network.overlaps(other):
                text = (
                    f'{network} overlaps {other} of Fabric "{owner.key[1]}", at {_at(owner)}:'
                    " two machines would get one address"
                )
                yield _problem(read, text, "spec", "addressing", "pool")
                break
        before.append((read.document, network))


def _at(document: Document) -> str:
    return f"{document.file}:{document.line}"


def _problem(read: _Read, text: str, *path: str | int) -> Problem:
    line, column = read.place(*path)
    return Problem(read.document.file, line, column, dotted(path), text)
