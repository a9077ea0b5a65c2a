"""Files that come with the package's code: manifests and a model to try, and the schemas of the kinds.

In a clone these are links to the folders where people look for them; a wheel has the files. The manual page and the
completions are only in the folder of a clone: a wheel installs them where man and shells look for them.
"""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parents[2] / "shipped"
ANY_KIND = SHIPPED / "schemas" / "manifest.json"
"""The schema to which the first lines of manifests refer."""


def schema_of(kind: str) -> Path:
    """Return the file of a kind's schema. To make it from the kind's class takes a fifth of a second."""
    return SHIPPED / "schemas" / f"{kind}.json"
