"""What commands ask of a running controller although they could find it out themselves: it has imported what that needs.

A problem is ``{"file", "line", "column", "path", "text"}``, as in ``reconciler.errors.Problem``. Where there are any, an
answer has nothing else.
"""

import dataclasses
from typing import Mapping, Optional

from .codec import message

BYTES_MAX = 256 * 1024
"""Of larger ones, reading takes longer than importing what reads them; and a controller has other things to do."""


@message("validate")
@dataclasses.dataclass(frozen=True)
class Validate:
    """Ask what is wrong with manifests by themselves: ``{"objects": [[kind, name]], "problems": [problem]}``.

    Refused if the code of the controller is not of ``edition``, for it may know other fields; and if all files together are
    larger than ``BYTES_MAX``.
    """

    edition: str
    files: Mapping[str, str]
    """Texts by name."""
    references: Optional[bool] = None
    """Whether each name of an object must be one of these; None: where any of them is a Node."""


@message("compare")
@dataclasses.dataclass(frozen=True)
class Compare:
    """Ask what an apply of manifests would change in the cluster repository.

    ``{"objects": [[kind, name]], "items": [{"kind", "name", "action", "diff": text}], "problems": [problem]}``:
    ``objects`` are all that were given, ``items`` those that differ. Refused like ``Validate``, and if the cluster's
    manifests come from a folder.
    """

    edition: str
    files: Mapping[str, str]
    """Texts by name."""
