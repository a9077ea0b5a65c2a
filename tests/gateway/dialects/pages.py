"""Tables of ``docs/endpoint.md`` that the code has too. ``UPDATE_GOLDEN=1`` writes them anew."""

from __future__ import annotations

from pathlib import Path

from tests.recorded import UPDATE

PAGE = Path(__file__).parents[3] / "docs" / "endpoint.md"


def check(name: str, table: str) -> None:
    """See that the page has this table."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = PAGE.read_text().partition(begin)
    found, _, after = rest.partition(end)
    if UPDATE:
        PAGE.write_text(before + begin + table + end + after)
    else:
        assert found == table
