"""Parses the output of git. Pure."""

from __future__ import annotations

from reconciler.errors import Invalid
from reconciler.source.yaml.syntax_errors import clip


def yaml_blobs(listing: bytes) -> dict[str, tuple[str, int]]:
    """Return object name and size by path, from ``ls-tree -r -z -l``. Raises ``Invalid`` if an object is missing."""
    blobs = {}
    for entry in filter(None, listing.split(b"\0")):
        description, _, raw = entry.partition(b"\t")
        mode, _, sha, size = description.split()
        path = raw.decode("utf-8", "surrogateescape")
        visible = not any(part.startswith(".") for part in path.split("/"))
        if mode in (b"100644", b"100755") and path.endswith((".yaml", ".yml")) and visible:
            if not size.isdigit():
                raise Invalid(f"the contents of {clip(path)} are missing (object {sha.decode()})")
            blobs[path] = (sha.decode(), int(size))
    return dict(sorted(blobs.items()))


def contents_of(output: bytes) -> list[bytes]:
    """Return the contents in the output of ``cat-file --batch``: a line with the size, the bytes, a line break.

    Raises ``Invalid`` if an object is missing.
    """
    contents, at = [], 0
    while at < len(output):
        end_of_line = output.index(b"\n", at)
        words = output[at:end_of_line].split(b" ")
        if not words[-1].isdigit():
            raise Invalid(f"object {words[0].decode()} is {words[-1].decode()}")
        size = int(words[-1])
        contents.append(output[end_of_line + 1 : end_of_line + 1 + size])
        at = end_of_line + 1 + size + 1
    return contents
