"""Files of the pages, from memory: browsers do not paint before the style sheet is there, and each change of threads would
delay it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
FOR_EVER = "public, max-age=31536000, immutable"
"""For the address of a file on a page, which changes with the file."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is sent. ``version`` changes with the content."""

    content: bytes
    type: str
    version: str


def address_of(name: str) -> str:
    """Return the address under which browsers may keep a file for ever."""
    return f"/static/{name}?{_known()[name].version}"


async def answer(request: Request) -> Response:
    """Answer with a file. Raises ``HTTPException`` if there is none."""
    found = _known().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    kept = FOR_EVER if request.url.query == found.version else "no-cache"
    return Response(found.content, media_type=found.type, headers={"cache-control": kept})


@functools.cache
def _known() -> Mapping[str, File]:
    made = {}
    for path in (files("reconciler.console") / "static").iterdir():
        type = TYPES.get(path.name.rpartition(".")[2])
        if type is not None:
            content = path.read_bytes()
            made[path.name] = File(content, type, hashlib.sha256(content).hexdigest()[:12])
    return made
