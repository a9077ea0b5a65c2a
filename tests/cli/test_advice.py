"""Every command that a message of the product names exists, with the options that it is named with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reconciler.cli.core.app import reconciler

from .test_reference import COMMANDS

PRODUCT = Path(__file__).parents[2] / "reconciler"
SOMETHING = "\N{REPLACEMENT CHARACTER}"
"""What stands for the value of an f-string."""
LINE = re.compile(r"\breconciler ((?:[a-z-]+ ?|-[-a-z=]+ ?|[^\s;`'\"(){}]+ ?)+)")
PROSE = {
    *(
        "is",
        "was",
        "has",
        "and",
        "or",
        "of",
        "to",
        "in",
        "that",
        "itself",
        "home",
        "process",
        "version",
        "for",
        "status",
    ),
    *("from", "reads", "examination", "request", "at", "once"),
}
"""Words of sentences that follow the product's name."""


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings, with their lines."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped = {
        id(node.value)
        for parent in ast.walk(tree)
        if isinstance(parent, documented)
        for node in parent.body
        if isinstance(node, ast.Expr)
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = (part.value if isinstance(part, ast.Constant) else SOMETHING for part in node.values)
            yield node.lineno, "".join(map(str, pieces))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped | parts
        ):
            yield node.lineno, node.value


def advice() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Places that name a command, and its words."""
    for path in sorted(PRODUCT.rglob("*.py")):
        for line, text in texts(ast.parse(path.read_text())):
            for match in LINE.finditer(text):
                words = tuple(word.rstrip(".,:") for word in match[1].split())
                if words and re.fullmatch(r"[a-z-]+", words[0]) and words[0] not in PROSE:
                    yield f"{path.relative_to(PRODUCT)}:{line}", words


def wrong(words: tuple[str, ...]) -> str:
    """What of a command does not exist; empty if all of it does."""
    context = click.Context(reconciler, info_name="reconciler")
    command: click.Command = reconciler
    rest = list(words)
    while rest and rest[0] in ("--home", "--context", "or", "reconciler"):
        rest = rest[2 if rest[0].startswith("-") else 1 :]
    while isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z-]+", rest[0]):
        inner = command.get_command(context, rest[0])
        if inner is None:
            return f"no command {rest[0]!r}" if rest[0] != "--help" else ""
        command, rest = inner, rest[1:]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {
        "--help",
        "--home",
        "--context",
    }
    named = [
        word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word) or re.fullmatch(r"-[a-z]", word)
    ]
    return next((f"no option {name}" for name in named if name not in known), "")


def test_every_command_that_is_named_exists(subtests: pytest.Subtests) -> None:
    assert len(COMMANDS) > 50, "all are imported before a test begins: some of what they use starts programs"
    named = list(dict.fromkeys(advice()))
    assert len(named) > 150
    for place, words in named:
        with subtests.test(f"{place} {' '.join(words)}"):
            assert wrong(words) == ""


def test_the_check_finds_what_is_wrong() -> None:
    assert wrong(("delte", "node")) == "no command 'delte'"
    assert wrong(("rollout", "redo")) == "no command 'redo'"
    assert wrong(("delete", "node", "a", "--with-link")) == "no option --with-link"
