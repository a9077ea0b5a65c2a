"""Output formats (`-o`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from .jsonpath import BadTemplate, Path, Template, parse_path, parse_template

F = TypeVar("F", bound=Callable[..., Any])


def output_option(*formats: str, instead_of: str = "text") -> Callable[[F], F]:
    """Add `-o json|yaml`, and the further formats of a command."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(("json", "yaml", *formats)),
        help=f"Print in this format instead of {instead_of}.",
    )


def limit_option(items: str, default: int, most: int) -> Callable[[F], F]:
    """Add `--limit` of a list, which shows its newest items."""
    text, range = f"Show the newest N {items}.", click.IntRange(1, most)
    return click.option("--limit", type=range, default=default, show_default=True, help=text)


def print_body(body: Any, output: str | None, lines: Iterable[str] = ()) -> None:
    """Print a body as JSON or YAML; without ``output``, print the lines instead."""
    if output is None:
        click.echo("\n".join(lines))
    else:
        text = _yaml(body) if output == "yaml" else json.dumps(body, indent=2, ensure_ascii=False) + "\n"
        click.echo(text, nl=False)


def print_line(body: Any, output: str) -> None:
    """Print one of many bodies: a line of JSON, or a YAML document."""
    text = json.dumps(body, ensure_ascii=False) + "\n" if output == "json" else f"---\n{_yaml(body)}"
    click.echo(text, nl=False)


def _yaml(body: Any) -> str:
    from reconciler.source.yaml.plain import as_yaml

    return as_yaml(body)


# --- the forms of `get` ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """The format of `get -o`. ``name`` is one of `FORMS`."""

    name: str
    template: Template = ()
    columns: tuple[tuple[str, Path], ...] = ()


FORMS = ("json", "yaml", "name", "wide", "dot", "svg", "jsonpath", "custom-columns")
_COMMA = re.compile(r",(?![^\[]*\])")


def parse_form(text: str) -> Form:
    """Return the format that `-o` names, with a template or columns behind `=`. Raises ``ValueError`` with what was expected."""
    name, equals, rest = text.partition("=")
    if name not in FORMS:
        raise ValueError(f"{name!r} is not one of {', '.join(map(repr, FORMS))}{_meant(name)}")
    takes_more = name in ("jsonpath", "custom-columns")
    if takes_more != bool(rest) or bool(equals) != bool(rest):
        raise ValueError(_example(name))
    if name == "jsonpath":
        return Form(name, parse_template(rest))
    columns = []
    for column in _COMMA.split(rest) if rest else ():
        header, colon, path = column.partition(":")
        if not colon or not header:
            raise BadTemplate(rest, rest.find(column), "expected HEADER:PATH")
        columns.append((header, parse_path(path)))
    return Form(name, columns=tuple(columns))


def _meant(name: str) -> str:
    """Return a clause with the format that was probably meant."""
    if name in ("table", "text"):
        return "; a table is what comes without -o"
    close = {"yml": "yaml", "jsonl": "json"}.get(name) or next(
        iter(get_close_matches(name, FORMS, 1, 0.6)), ""
    )
    return f', did you mean "{close}"?' if close else ""


def _example(name: str) -> str:
    match name:
        case "jsonpath":
            return "expected a template, such as: -o jsonpath='{.items[*].metadata.name}'"
        case "custom-columns":
            return "expected columns, such as: -o custom-columns=NAME:.metadata.name,MODEL:.spec.model"
        case _:
            return f"{name} takes no argument"
