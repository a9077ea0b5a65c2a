"""docs/cli.md says what the commands say of themselves, and every command says enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reconciler.cli import reference
from reconciler.cli.core.app import LISTED, reconciler

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def tree(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            inner = context.command.get_command(context, name)
            assert inner is not None
            yield from tree(click.Context(inner, info_name=name, parent=context))


COMMANDS = {
    context.command_path.removeprefix("reconciler "): context
    for context in tree(click.Context(reconciler, info_name="reconciler"))
    if context.command_path.split()[1:2] and context.command_path.split()[1] in LISTED
}


def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main([str(PAGE), "--check"]) == 0, capsys.readouterr().out


def test_an_outdated_page_is_found_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "cli.md"
    page.write_text(f"# Before\n\n{reference.BEGIN}\nold\n{reference.END}\nafter\n")
    assert reference.main([str(page), "--check"]) == 1
    assert f"{page} is outdated" in capsys.readouterr().out
    assert reference.main([str(page)]) == 0
    assert reference.main([str(page), "--check"]) == 0
    assert page.read_text().startswith("# Before\n")
    assert page.read_text().endswith(f"{reference.END}\nafter\n")


@pytest.mark.parametrize("path", COMMANDS)
def test_the_page_names_every_command_with_all_its_options(path: str) -> None:
    section = PAGE.read_text().partition(f"\n### {path}\n")[2].partition("\n### ")[0]
    for parameter in COMMANDS[path].command.params:
        if isinstance(parameter, click.Option):
            for name in (*parameter.opts, *parameter.secondary_opts):
                assert f"`{name}`" in section


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_a_purpose_examples_and_words_for_its_options(path: str) -> None:
    command = COMMANDS[path].command
    assert command.help
    examples = command.help.partition("\b\n")[2]
    assert f"reconciler {path.split()[0]}" in examples
    assert [p.name for p in command.params if isinstance(p, click.Option) and not p.help] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_whatever_has_json_has_yaml(path: str) -> None:
    for parameter in COMMANDS[path].command.params:
        choices = getattr(parameter.type, "choices", ())
        assert ("json" in choices) == ("yaml" in choices)
