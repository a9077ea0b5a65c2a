"""What other servers have is named with what to use instead, which there is; the documentation has the same table."""

from __future__ import annotations

import re

from reconciler.gateway.dialects.elsewhere import ROWS, found, is_named
from reconciler.gateway.dialects.table import DIALECTS
from tests.gateway.dialects import pages

PROBES = {"GET /", "GET /health", "GET /ping", "POST /ping", "GET /ready", "GET /metrics", "POST /hooks/git"}


def served() -> set[str]:
    return PROBES | {f"{row.method} {row.path}" for dialect in DIALECTS for row in dialect.paths}


def test_a_path_stands_in_one_row_and_is_served_in_none() -> None:
    paths = [path for row in ROWS for path in row.paths]
    assert len(paths) == len(set(paths))
    assert not set(paths) & {name.split()[1] for name in served()}


def test_what_is_to_be_used_instead_is_served() -> None:
    for row in ROWS:
        for name in re.findall(r"`((?:GET|POST) [^`]+)`", row.instead):
            assert name.replace("/NAME", "/{name:path}") in served(), name


def test_what_is_below_a_path_is_of_its_row_unless_another_says_more() -> None:
    row = found("/api/blobs/sha256:0")
    assert row is not None
    assert (row.whose, is_named("/api/blobs/sha256:0")) == ("Ollama", False)
    assert found("/v1/messages/batches/x") != found("/v1/batches/x")
    assert found("/v1/filesystem") is None


def rendered() -> str:
    """The table as the page has it."""
    cells = [(row.whose, ", ".join(f"`{path}`" for path in row.paths), row.instead) for row in ROWS]
    lines = ["| of | paths | instead |", "|---|---|---|", *(f"| {' | '.join(each)} |" for each in cells)]
    return "\n".join(lines) + "\n"


def test_the_documentation_has_the_table() -> None:
    pages.check("paths of others", rendered())
