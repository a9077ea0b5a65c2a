"""How many generated examples a property is tried on: part of what it asks for in the first tier, all in the second.

``RECONCILER_EXAMPLES`` is a percentage. ``make test`` sets it to 20, the second tier leaves it at 100.
"""

from __future__ import annotations

import os

PERCENT = int(os.environ.get("RECONCILER_EXAMPLES", "100"))
EXAMPLES_MIN = 20
"""No property is tried on fewer, unless it asks for fewer itself."""


def examples(count: int) -> int:
    """Scale a number of examples to the tier that runs."""
    return max(min(count, EXAMPLES_MIN), count * PERCENT // 100)
