"""The table of what is sent instead of what a model does not take is that of the code. ``UPDATE_GOLDEN=1`` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from reconciler.gateway.dialects.content import REPLACED as PARTS
from reconciler.runner.requests.shaping import REPLACED as SHAPED

DOCUMENT = Path(__file__).parents[2] / "docs" / "endpoint.md"
BEGIN, END = "<!-- what is replaced: begin -->\n", "<!-- what is replaced: end -->"
HEAD = "| in the header | not taken | sent instead | lost |\n|---|---|---|---|\n"


def test_the_table_says_what_is_replaced_and_what_is_lost() -> None:
    rows = [f"| `{name}` | {' | '.join(cells)} |\n" for name, cells in {**PARTS, **SHAPED}.items()]
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    now = f"{before}{BEGIN}{HEAD}{''.join(rows)}{END}{rest.split(END)[1]}"
    if os.environ.get("UPDATE_GOLDEN"):
        DOCUMENT.write_text(now, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == now
