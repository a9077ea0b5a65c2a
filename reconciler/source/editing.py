"""Turns changes of manifests into changes of their files, and keeps people's text. Pure."""

from __future__ import annotations

import base64
import difflib
import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from reconciler.resources import Fabric, Job, Manifest
from reconciler.wire import answers

from .yaml import fields
from .yaml.documents import Document, load, parse
from .yaml.objects import SET_BY_CONTROLLER, as_json, ignoring_status, is_json, pieces_of
from .yaml.pieces import ENDINGS, Beside, Piece, join
from .yaml.plain import as_yaml

Action = Literal["created", "configured", "unchanged", "deleted"]

SCHEMA = "schemas/manifest.json"
"""The path of the schema of all kinds in a cluster repository, for the editors of people who clone it."""
_MODELINE = re.compile(r"^# yaml-language-server:[^\n]*\n?", re.MULTILINE)
_SHIPPED = re.compile(r"# yaml-language-server: *\$schema=(?:\.\./)*schemas/manifest\.json\s*$")
_PORTABLE = re.compile(r"# yaml-language-server: *\$schema=(https?://|/)")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an edit for one object."""

    kind: str
    name: str
    action: Action


@dataclass(frozen=True, slots=True)
class Edit:
    """Files to write (None removes a file), and the result for each object."""

    changes: Mapping[str, bytes | None]
    results: tuple[Result, ...]

    def applied_to(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        changed = {**files, **self.changes}
        return {name: content for name, content in changed.items() if content is not None}


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    """The difference of one object. ``text`` is a unified diff of the YAML of both sides."""

    kind: str
    name: str
    action: Action
    text: str

    def body(self) -> answers.ObjectChange:
        """Return its form for `-o json`."""
        return {"kind": self.kind, "name": self.name, "action": self.action, "diff": self.text}


class _Files:
    """The files of an edit as pieces; each is split on first use."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._pieces: dict[str, list[Piece]] = {}

    def pieces(self, file: str) -> list[Piece]:
        if file not in self._pieces:
            text = self._files.get(file, b"").decode("utf-8-sig")
            self._pieces[file] = pieces_of(file, text)
        return self._pieces[file]

    def changes(self) -> dict[str, bytes | None]:
        texts = {
            file: as_json(pieces) if is_json(file) else join(pieces) for file, pieces in self._pieces.items()
        }
        return {
            file: text.encode() if any(piece.body.strip() for piece in self._pieces[file]) else None
            for file, text in texts.items()
        }


def apply_documents(current_files: Mapping[str, bytes], incoming: tuple[Document, ...]) -> Edit:
    """Put ``incoming`` into the files: replace existing objects in place, and add new ones.

    Objects are compared by meaning: an equal one keeps its text. A new object goes into the file of the name that
    it came from. Raises ``InvalidManifests`` if the files are invalid before or after.
    """
    present = {document.key: document for document in load(current_files)}
    files, results = _Files(current_files), []
    for document in incoming:
        existing = present.get(document.key)
        action: Action = "created" if existing is None else "configured"
        if existing is None:
            target = _target(document)
            _append(files.pieces(target), replace(document, text=_wish(document)), target)
        elif existing.manifest == (wished := _as_in(existing, document.manifest)):
            action = "unchanged"
        elif _as_in(existing, wished, keep_files=True) == existing.manifest:  # only its files differ
            pass
        else:
            pieces = files.pieces(existing.file)
            pieces[existing.index] = _replaced(pieces[existing.index], _wish(document))
        results.append(Result(*document.key, action))
    changes = {**files.changes(), **_beside(current_files, incoming)}
    return _checked(current_files, Edit(changes, tuple(results)))


def _beside(current_files: Mapping[str, bytes], incoming: Iterable[Document]) -> dict[str, Beside]:
    """Return the files of Jobs that come with them, and that are not there, or differ."""
    files = (
        each
        for document in incoming
        if isinstance(document.manifest, Job)
        for each in document.manifest.spec.files
    )
    come = {each.path: Beside(base64.b64decode(each.data)) for each in files if each.data is not None}
    return {path: content for path, content in come.items() if current_files.get(path) != content}


def _as_in(existing: Document, manifest: Manifest, *, keep_files: bool = False) -> Manifest:
    """Return a Job with the path that it has in the repository, and with the content of files that did not come with it;
    of all files with ``keep_files``. Other objects stay."""
    before = existing.manifest
    if not isinstance(manifest, Job) or not isinstance(before, Job):
        return manifest
    known = {each.path: each.data for each in before.spec.files}
    files = tuple(
        each.model_copy(update={"data": known[each.path]})
        if each.path in known and (keep_files or each.data is None)
        else each
        for each in manifest.spec.files
    )
    spec = manifest.spec.model_copy(update={"files": files, "manifest_path": before.spec.manifest_path})
    return manifest.model_copy(update={"spec": spec})


def delete_with_links(current_files: Mapping[str, bytes], keys: Iterable[tuple[str, str]]) -> Edit:
    """Remove objects as ``delete_objects`` does, and the links of Fabrics that end at a removed Node."""
    gone = tuple(keys)
    nodes = {name for kind, name in gone if kind == "Node"}
    wanted: dict[tuple[str, str], Values] = {}
    for document in load(current_files):
        if isinstance(document.manifest, Fabric) and document.key not in gone:
            spec = document.manifest.spec
            lists = {("spec", "links"): spec.links, ("spec", "allowUntested"): spec.allow_untested}
            changed: dict[tuple[str, ...], Any] = {}
            for path, links in lists.items():
                kept = [
                    list(ends) for ends in links if not any(end.rpartition("/")[0] in nodes for end in ends)
                ]
                if len(kept) < len(links):
                    changed[path] = kept
            if changed:
                wanted[document.key] = changed
    unlinked = set_fields(current_files, wanted)
    edit = delete_objects(unlinked.applied_to(current_files), gone)
    return Edit({**unlinked.changes, **edit.changes}, (*unlinked.results, *edit.results))


def delete_objects(current_files: Mapping[str, bytes], keys: Iterable[tuple[str, str]]) -> Edit:
    """Remove objects, each a kind and a name; missing ones have no result.

    A file without documents is removed. Raises ``InvalidManifests`` if the files are invalid before or after: a
    Node cannot be removed while a Fabric names it.
    """
    present = {document.key: document for document in load(current_files)}
    files, results = _Files(current_files), []
    gone: dict[str, set[int]] = {}
    for key in dict.fromkeys(keys):
        if (existing := present.get(key)) is not None:
            gone.setdefault(existing.file, set()).add(existing.index)
            results.append(Result(*key, "deleted"))
    for file, indexes in gone.items():
        pieces = files.pieces(file)
        modeline = "".join(_MODELINE.findall(pieces[0].body)[:1])
        kept = [piece for index, piece in enumerate(pieces) if index not in indexes]
        if any(parse(file, piece).root is not None for piece in kept):
            head = kept[0].body
            pieces[:] = [Piece("", head if _MODELINE.match(head) else modeline + head, 1, 1), *kept[1:]]
        else:
            pieces[:] = [Piece("", "", 1, 1)]
    return _checked(current_files, Edit(files.changes(), tuple(results)))


Values = Mapping[tuple[str, ...], Any]
"""New plain values, or ``fields.REMOVED``, by the path of the field."""


def set_fields(current_files: Mapping[str, bytes], wanted: Mapping[tuple[str, str], Values]) -> Edit:
    """Change single fields of objects, each a kind and a name, and no other character of their files.

    Missing objects have no result. Objects that already have these values keep their text. Raises
    ``InvalidManifests`` if the files are invalid before or after.
    """
    present = {document.key: document for document in load(current_files)}
    files, results = _Files(current_files), []
    for key, values in wanted.items():
        if (existing := present.get(key)) is None:
            continue
        pieces = files.pieces(existing.file)
        piece = pieces[existing.index]
        for path, value in values.items():
            piece = _with_field(piece, path, value)
        name = f"{existing.file}.yaml" if is_json(existing.file) else existing.file
        (after,) = load({name: piece.body.encode()}, part=True)
        same = _as_in(existing, after.manifest) == existing.manifest
        action: Action = "unchanged" if same else "configured"
        if action == "configured":
            pieces[existing.index] = piece
        results.append(Result(*key, action))
    changes = files.changes() if any(result.action == "configured" for result in results) else {}
    return _checked(current_files, Edit(changes, tuple(results)))


def put_text(current_files: Mapping[str, bytes], document: Document) -> Edit:
    """Replace an object's text, including comments; a new object is added.

    Raises ``InvalidManifests`` if the files are invalid before or after.
    """
    existing = next((known for known in load(current_files) if known.key == document.key), None)
    if existing is None:
        return apply_documents(current_files, (document,))
    if existing.text == document.text:
        return Edit({}, (Result(*document.key, "unchanged"),))
    files = _Files(current_files)
    pieces = files.pieces(existing.file)
    piece = pieces[existing.index]
    pieces[existing.index] = Piece(_ended(piece.marker), _ended(document.text), piece.line, piece.column)
    return _checked(current_files, Edit(files.changes(), (Result(*document.key, "configured"),)))


def _checked(files: Mapping[str, bytes], edit: Edit) -> Edit:
    """Return an edit of these files. Raises ``InvalidManifests`` if they are invalid after it."""
    load(edit.applied_to(files))
    return edit


def diff(current: tuple[Document, ...], incoming: tuple[Document, ...]) -> tuple[ObjectDiff, ...]:
    """Return what an apply of ``incoming`` would change, with an entry for each new or different object."""
    present = {document.key: document for document in current}
    found = []
    for document in incoming:
        known = present.get(document.key)
        existing = None if known is None else known.manifest
        wished = document.manifest if known is None else _as_in(known, document.manifest)
        if existing != wished:
            action: Action = "created" if existing is None else "configured"
            text = _unified(document.key, existing, wished)
            found.append(ObjectDiff(*document.key, action, text))
    return tuple(found)


def normalised(manifest: Manifest) -> str:
    """Return a manifest as YAML with all defaults, so that equal objects have equal text. Files of a Job have a hash in place
    of their content."""
    body = manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    for file in body["spec"].get("files", ()) if isinstance(manifest, Job) else ():
        if "data" in file:
            file["data"] = f"sha256:{hashlib.sha256(base64.b64decode(file['data'])).hexdigest()}"
    return as_yaml(body)


def _unified(key: tuple[str, str], before: Manifest | None, after: Manifest) -> str:
    path = "/".join(key)
    old = normalised(before).splitlines(keepends=True) if before is not None else []
    new = normalised(after).splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, f"current/{path}", f"incoming/{path}"))


# --- text ------------------------------------------------------------------------------------------


def _target(document: Document) -> str:
    """Return the file for a new object: the one it came from, if that is a path within the repository."""
    path = posixpath.normpath(document.file)
    if not path.endswith(ENDINGS) or is_json(path):
        return f"{document.key[0].lower()}-{document.key[1]}.yaml"
    if path.startswith(("/", "../")) or any(part.startswith(".") for part in path.split("/")):
        return posixpath.basename(path).lstrip(".")
    return path


def _wish(document: Document) -> str:
    """Return an object's text without the fields that the controller adds."""
    text = document.text
    root = parse("", Piece("", text, 1, 1)).root
    assert root is not None
    said = [("status",), *(("metadata", name) for name in SET_BY_CONTROLLER)]
    for path in said:
        if path[-1] in (root.value if len(path) == 1 else root.value["metadata"]):
            changed = fields.changed(text, path, fields.REMOVED)
            if changed is None:
                return as_yaml(ignoring_status(root).value)
            text = changed
    return text


def _append(pieces: list[Piece], document: Document, file: str) -> None:
    body = _ended(_without_modeline(document.text))
    if len(pieces) == 1 and not pieces[0].body.strip():
        line = "".join(_MODELINE.findall(document.text)[:1])
        shipped = f"{modeline(file)}\n" if _SHIPPED.match(line) else ""
        pieces[0] = Piece(pieces[0].marker, shipped + body, 1, 1)
        return
    last = pieces[-1]
    pieces[-1] = Piece(last.marker, _ended(last.body), last.line, last.column)
    pieces.append(Piece("---\n", body, 1, 1))


def _with_field(piece: Piece, path: Sequence[str], value: Any) -> Piece:
    """Return a piece with one field changed; only if necessary it is rewritten, and loses inner comments."""
    body = fields.changed(piece.body, path, value)
    if body is None:
        root = parse("", piece).root
        assert root is not None
        return _replaced(piece, as_yaml(fields.with_field(root.value, path, value)))
    return Piece(piece.marker, body, piece.line, piece.column)


def _replaced(piece: Piece, text: str) -> Piece:
    """Return a piece with another document. Comments around the old one stay unless the new one has some."""
    before, _, after = _parts(piece.body)
    new_before, content, new_after = _parts(text)
    modeline = "".join(_MODELINE.findall(before)[:1])
    own = _without_modeline(new_before)
    head = modeline + own if own.strip() else before
    tail = new_after if new_after.strip() else after
    return Piece(_ended(piece.marker), _ended(head + _ended(content) + tail), piece.line, piece.column)


def _parts(body: str) -> tuple[str, str, str]:
    """Return the lines before a document's content, the content, and the lines after it."""
    tree = parse("", Piece("", body, 1, 1))
    lines = body.splitlines(keepends=True)
    first, last = max(tree.first_line - 1, 0), tree.last_line
    return "".join(lines[:first]), "".join(lines[first:last]), "".join(lines[last:])


def modeline(file: str) -> str:
    """Return the line with which editors find the schema of a file in a cluster repository."""
    return f"# yaml-language-server: $schema={'../' * posixpath.normpath(file).count('/')}{SCHEMA}"


def _without_modeline(text: str) -> str:
    """Return ``text`` without the editor's schema line if its path would be wrong here."""
    return _MODELINE.sub(lambda match: match[0] if _PORTABLE.match(match[0]) else "", text, count=1)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
