"""Checks of manifests by a running controller, which is faster than a command because its imports are done."""

import dataclasses
from typing import Mapping, Optional

from .answers import Asks, Compared, Validated
from .codec import message

BYTES_MAX = 256 * 1024
"""Larger manifests take longer to read than the imports take; and a controller has other things to do."""


@message("validate")
@dataclasses.dataclass(frozen=True)
class Validate(Asks[Validated]):
    """Ask for the problems of manifests by themselves.

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
class Compare(Asks[Compared]):
    """Ask what an apply of manifests would change in the cluster repository. Refused like ``Validate``, and if the cluster's
    manifests come from a folder.
    """

    edition: str
    files: Mapping[str, str]
    """Texts by name."""
