"""Formats of strings. Pure.

llguidance enforces those of ``COMPILED``. It takes some dates and times that do not exist, such as the 29th of
February in any year, so dates and times are patterns here. An enforced format may allow only a part of the strings
that have it.
"""

from __future__ import annotations

from collections.abc import Mapping

COMPILED = frozenset(["duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"])
_YEAR = "[12][0-9]{3}"
_LEAP = "([12][0-9](0[48]|[2468][048]|[13579][26])|(12|16|20|24|28)00)"
_DATE = (
    f"({_YEAR}-(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|{_YEAR}-(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    f"{_YEAR}-02-(0[1-9]|1[0-9]|2[0-8])|{_LEAP}-02-29)"
)
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
PATTERNS: Mapping[str, str] = {"date": f"^{_DATE}$", "time": f"^{_TIME}$", "date-time": f"^{_DATE}T{_TIME}$"}
KNOWN = COMPILED | PATTERNS.keys()
