"""The header of a weight file, without its tensors: eight bytes of length, and JSON of this length."""

from __future__ import annotations

from collections.abc import Callable

from reconciler.wire.shards import HEADER_BYTES_MAX, described, header_end
from reconciler.wire.weights import FetchProblem, WantedFile

from .problems import Unfetched

FIRST_BYTES = 128 * 1024
"""Nearly every header fits into this: one request is faster than two."""


def header(wanted: WantedFile, read: Callable[[int, int], bytes]) -> bytes:
    """Return the start of a file, up to its tensors; ``read`` returns bytes by offset and length. Raises ``Unfetched``.

    It has no digest, but it must describe exactly the file's size.
    """
    found = read(0, min(FIRST_BYTES, wanted.size))
    end = header_end(found)
    if not 8 < end <= min(wanted.size, HEADER_BYTES_MAX):
        raise _useless(wanted)
    if end > len(found):
        found += read(len(found), end - len(found))
    try:
        whole = described(found[8:end], end).bytes
    except ValueError:
        raise _useless(wanted) from None
    if whole != wanted.size:
        raise _useless(wanted)
    return found[:end]


def _useless(wanted: WantedFile) -> Unfetched:
    text = f"{wanted.name} has no header that describes the file"
    return Unfetched(FetchProblem.CORRUPTED, text)
