"""Formats of strings. Pure.

llguidance enforces those of ``COMPILED``; of dates and times it takes a few that there are not, such as the 29th of February in
any year, so that these are patterns here. Where a format is enforced, fewer strings may be written than have it.
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
