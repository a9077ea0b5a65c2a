"""Every command of the README and of the documents does what it says there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .newcomer import NOT_HERE, ROOT, TESTS, Block, Newcomer, blocks, newcomer, without_comment

pytestmark = [pytest.mark.e2e, pytest.mark.second_tier]

README = ROOT / "README.md"
SECOND_TERMINAL = Block(
    "README.md", 0, ('export RECONCILER_HOME="$PWD/.reconciler" PATH="$PWD/.venv/bin:$PATH"',)
)
SETTLED = Block("the end", 0, ("reconciler rollout status deployment/tiny --timeout=200s",))
"""A document leaves the cluster as it found it."""
CLIENTS = ROOT / "docs" / "clients.md"
"""Its commands are those of programs of others, which ``make clients`` installs and runs."""
DOCUMENTS = [README, *sorted(set((ROOT / "docs").rglob("*.md")) - {CLIENTS})]


@pytest.fixture(scope="module")
def person() -> Iterator[Newcomer]:
    """Who has read the README, and goes on with the documents while the quickstart runs."""
    with newcomer() as somebody:
        for block in blocks(README):
            somebody.type(block)
        yield somebody


@pytest.mark.needs("curl")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if blocks(d)], ids=lambda d: d.relative_to(ROOT).as_posix()
)
def test_every_command_of_a_document_runs(person: Newcomer, document: Path) -> None:
    person.open_terminal()
    person.type(SECOND_TERMINAL)
    for block in blocks(document) if document != README else []:
        person.type(block)
    person.open_terminal()  # what a document sets in its own is gone
    person.type(SECOND_TERMINAL)
    person.type(SETTLED)


def test_what_is_left_out_is_there() -> None:
    targets = (ROOT / "Makefile").read_text()
    reference = (ROOT / "docs" / "cli.md").read_text()
    for command in NOT_HERE:
        if command.startswith("make "):
            assert f"\n{command.split()[1]}:" in targets, command
        else:
            assert command in reference, command


def test_tests_and_bugs_that_are_named_exist() -> None:
    """They are not run from the documents."""
    lines = [without_comment(line) for d in DOCUMENTS for block in blocks(d) for line in block.lines]
    named = [line for line in lines if TESTS.match(line)]
    assert named
    for line in named:
        for path in re.findall(r"\btests/\S+", line):
            assert (ROOT / path).exists(), line


def test_commands_of_the_documents_stand_in_blocks_that_are_run() -> None:
    """A block without a language, or with another name for a shell, would escape this test."""
    for document in DOCUMENTS:
        fences = [
            line.strip() for line in document.read_text().splitlines() if line.strip().startswith("```")
        ]
        opening = fences[::2]
        assert set(opening) <= {"```sh", "```yaml", "```json", "```python", "```text", "```"}, document
        assert without_comment("x  # y") == "x"
