"""Files that are no manifests, but that Jobs name: they stand among the files of a revision, by their paths. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.resources.job_files import FILES_BYTES_MAX, is_inside

from .objects import objects_in, of_others
from .pieces import Absent, Beside, counts
from .syntax_errors import clip

_MAYBE_A_JOB = re.compile(rb"\bJob\b")


def is_manifest(path: str, content: bytes) -> bool:
    """Return whether a file of a repository is read as manifests."""
    return counts(path) and not of_others(path, content)


def wanted(files: Mapping[str, bytes]) -> frozenset[str]:
    """Return the paths that the Jobs in these files name, without those that are no paths within a repository."""
    texts = (text for text in files.values() if not isinstance(text, Beside) and _MAYBE_A_JOB.search(text))
    return frozenset(path for text in texts for path in _paths(text))


def _paths(text: bytes) -> Iterator[str]:
    for (kind, _), (body, _) in objects_in(text).items():
        spec = body.get("spec") if kind == "Job" else None
        listed = spec.get("files") if isinstance(spec, dict) else None
        for each in listed if isinstance(listed, list) else ():
            path: Any = each.get("path") if isinstance(each, dict) else each
            if isinstance(path, str) and is_inside(path):
                yield path


def missing(path: str, known: Iterable[str]) -> Absent:
    """Return that a revision has no file of this name; ``known``: all paths that it has."""
    from .field_errors import suggest  # it imports pydantic, and completion reads files too

    names = [*known]
    if any(name.startswith(f"{path}/") for name in names):
        return Absent(f'"{clip(path)}" is a folder; name its files, one by one')
    last = path.rpartition("/")[2]
    same_name = sorted(name for name in names if name.rpartition("/")[2] == last)
    nearest = same_name[0] if same_name else suggest(path, names)
    advice = f'did you mean "{nearest}"?' if nearest else "commit it together with the job"
    return Absent(f'there is no file "{clip(path)}", from the root of the repository; {advice}')


def linked(path: str) -> Absent:
    return Absent(f'"{clip(path)}" is a link or a submodule, which is not followed; commit the file itself')


def too_large(path: str, size: int) -> Absent:
    return Absent(
        f'"{clip(path)}" has {size} bytes, and all files of a job together have at most'
        f" {FILES_BYTES_MAX // 2**20} MiB: fetch larger ones in the program"
    )


def packed(files: Mapping[str, bytes]) -> tuple[dict[str, str], dict[str, str]]:
    """Return files as texts for a message: the manifests, and in base64 the files that Jobs name."""
    texts = {
        name: text.decode("utf-8-sig", "replace")
        for name, text in files.items()
        if not isinstance(text, Beside)
    }
    others = {
        name: base64.b64encode(content).decode()
        for name, content in files.items()
        if isinstance(content, Beside) and not isinstance(content, Absent)
    }
    return texts, others


def unpacked(texts: Mapping[str, str], others: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files that ``packed`` was given. Raises ``ValueError`` for what is no base64."""
    contents = {name: Beside(base64.b64decode(text, validate=True)) for name, text in others.items()}
    return {**{name: text.encode() for name, text in texts.items()}, **contents}
