"""`-o`: how what was read is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def output_option(*formats: str) -> Callable[[F], F]:
    """`-o json` on everything that reads, beside what else a command can."""
    return click.option(
        "-o", "--output", type=click.Choice(("json", *formats)), help="Print in this form instead of a table."
    )


def print_json(body: Any) -> None:
    """Indented JSON."""
    click.echo(json.dumps(body, indent=2, ensure_ascii=False))
