"""The header of a weight file, without its tensors: eight bytes of length, and so much JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from reconciler.wire.weights import FetchProblem, WantedFile

from .problems import Unfetched

FIRST_BYTES = 128 * 1024
"""Of nearly every file the header is in there: one request is quicker than two."""
HEADER_BYTES_MAX = 100_000_000
"""The bound of the safetensors format itself."""


def header(wanted: WantedFile, read: Callable[[int, int], bytes]) -> bytes:
    """What a file begins with, up to its tensors; ``read`` gives bytes by offset and length. Raises ``Unfetched``.

    No digest tells whether it is right, but that it describes just as many bytes as the file has.
    """
    found = read(0, min(FIRST_BYTES, wanted.size))
    end = header_end(found)
    if not 8 < end <= min(wanted.size, HEADER_BYTES_MAX):
        raise _useless(wanted)
    if end > len(found):
        found += read(len(found), end - len(found))
    try:
        told = json.loads(found[8:end])
        tensors = max(each["data_offsets"][1] for name, each in told.items() if name != "__metadata__")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _useless(wanted) from None
    if end + tensors != wanted.size:
        raise _useless(wanted)
    return found[:end]


def header_end(start: bytes) -> int:
    """Where a header ends by its own first bytes."""
    return 8 + int(struct.unpack("<Q", start[:8])[0]) if len(start) >= 8 else 0


def _useless(wanted: WantedFile) -> Unfetched:
    text = f"{wanted.name} has no header that describes the file"
    return Unfetched(FetchProblem.CORRUPTED, text)
