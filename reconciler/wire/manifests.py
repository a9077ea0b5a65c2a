"""Checks of manifests by a running controller, which is faster than a command because its imports are done.

A problem is ``{"file", "line", "column", "path", "text"}``, as in ``reconciler.errors.Problem``. If there are problems,
an answer has nothing else.
"""

import dataclasses
from typing import Any, Mapping, Optional

from .answers import Asks
from .codec import message

BYTES_MAX = 256 * 1024
"""Larger manifests take longer to read than the imports take; and a controller has other things to do."""


@message("validate")
@dataclasses.dataclass(frozen=True)
class Validate(Asks[Any]):
    """Ask for the problems of manifests by themselves: ``{"objects": [[kind, name]], "problems": [problem]}``.

    Refused if the code of the controller is not of ``edition``, because it may know other fields; and if all files
    together are larger than ``BYTES_MAX``.
    """

    edition: str
    files: Mapping[str, str]
    """Texts by name."""
    references: Optional[bool] = None
    """Require that each name of an object is one of these; None: only if one of them is a Node."""


@message("compare")
@dataclasses.dataclass(frozen=True)
class Compare(Asks[Any]):
    """Ask what an apply of manifests would change in the cluster repository.

    ``{"objects": [[kind, name]], "items": [{"kind", "name", "action", "diff": text}], "problems": [problem]}``:
    ``objects`` are all that were given, ``items`` those that differ. Refused like ``Validate``, and if the cluster's
    manifests come from a folder.
    """

    edition: str
    files: Mapping[str, str]
    """Texts by name."""
