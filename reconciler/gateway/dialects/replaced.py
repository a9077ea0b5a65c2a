"""The headers of an answer that tell what the model or its chat template does not take. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence

from reconciler.gateway.events import Piece
from reconciler.wire.generation import Accepted, Replaced

from .rate_limits import Headers

DROPPED_TOOLS = b"x-dropped-tools"
"""The header with the tools that the model does not see, by type and, for responses, by name."""
HEADER = b"x-replaced"
"""The header that counts the content that was replaced."""
KINDS_MAX = 32
"""More kinds than there are: a rank of a later version may know others."""
_KIND = re.compile(r"[a-z-]{1,40}")


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """The headers of an answer, as far as they are known."""

    headers: Headers
    replaced: Sequence[Replaced] = ()

    def after(self, pieces: Sequence[Piece]) -> Head:
        """Return the head with the counts of rank 0, which hold for all choices, because these have the same
        prompt."""
        told = [answer.replaced for index, answer in pieces if index == 0 and isinstance(answer, Accepted)]
        return Head(self.headers, (*self.replaced, *told[0])) if told else self

    def lines(self) -> Headers:
        """Return the headers. If content was replaced, one of them has the number of each kind."""
        counts: Counter[str] = Counter()
        for each in self.replaced:
            if _KIND.fullmatch(each.kind):
                counts[each.kind] += each.count
        named = ", ".join(f"{kind}={count}" for kind, count in sorted(counts.items())[:KINDS_MAX])
        return (*self.headers, (HEADER, named.encode())) if named else self.headers


def dropped_headers(dropped: Sequence[str]) -> Headers:
    """Return the header with the tools that the model does not see, if there are any."""
    return ((DROPPED_TOOLS, ", ".join(dropped).encode()),) if dropped else ()
