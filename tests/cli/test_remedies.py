"""Every command that the product tells somebody to type is one that there is, with options that it takes.

The texts are read out of the source: those of findings, refusals, errors and hints, whatever state they are printed in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import click
import pytest

from reconciler.cli.core.app import UNLISTED, reconciler

from .live import ROOT

TYPED = re.compile(
    r"(?:`|: |'|\bor |\bwith |\btype |\brun |\buse |\$\()reconciler ((?:--home [^\s,]+ )?[a-z][^`;\"\n]*)"
)
"""What is to be typed, and not a sentence about the product."""
END = re.compile(
    r"[,;:.)?`']+(?:\s|$)|\s(?:and|or|if|says|serves|prints|does|has|to|is|with|until|again|shows|in|for|\||#)\b|\s{2,}"
)
"""Where a command is over and the sentence goes on."""
HOME = re.compile(r"^--home \S+ ")
STANDS_FOR = "{x}"
"""What is filled in."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the product, but for docstrings of modules, classes and functions."""

    words: str
    file: str
    """Relative to the product's folder."""
    line: int
    documents: bool
    """It documents a field: it is shown as help, in no state."""

    @property
    def place(self) -> str:
        return f"reconciler/{self.file}:{self.line}"


def texts(having: str) -> Iterator[Text]:
    """Find the texts of the modules that have these characters anywhere; all others would be read in vain."""
    product = ROOT / "reconciler"
    for path in sorted(product.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if having not in source:
            continue
        file = str(path.relative_to(product))
        nodes = list(ast.walk(ast.parse(source)))
        left_out = {id(node.body[0].value) for node in nodes if _has_docstring(node)}  # type: ignore[attr-defined]
        left_out |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else STANDS_FOR for part in node.values)
                yield Text("".join(map(str, parts)), file, node.lineno, id(node) in documents)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
                yield Text(node.value, file, node.lineno, id(node) in documents)


def _has_docstring(node: ast.AST) -> bool:
    body = getattr(node, "body", None)
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not body:
        return False
    return isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)


def remedies() -> Iterator[tuple[str, Text]]:
    for text in texts("reconciler "):
        for found in TYPED.finditer(text.words):
            yield END.split(HOME.sub("", found[1]), maxsplit=1)[0].strip(), text


REMEDIES = list(remedies())


def misunderstood(words: str) -> str:
    """Say what of a command there is not; empty for nothing."""
    command: click.Command = reconciler
    context = click.Context(reconciler, info_name="reconciler")
    for word in words.split():
        if isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            found = command.get_command(context, word)
            if found is None:
                return f"there is no {word}"
            command = found
        elif re.match(r"--?[a-z]", word):
            option = word.partition("=")[0]
            known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            if option not in known | {"--help", "-h"} and option[:2] not in known:
                return f"it takes no {option}"
    return ""


@pytest.mark.parametrize("words", sorted({words for words, _ in REMEDIES}))
def test_what_is_to_be_typed_is_understood(words: str) -> None:
    places = [text.place for each, text in REMEDIES if each == words]
    assert words.split()[0] not in UNLISTED, places
    assert misunderstood(words) == "", places


def test_there_are_many() -> None:
    assert len(REMEDIES) > 150
    assert misunderstood("no-such thing") == "there is no no-such"
    assert misunderstood("delete node x --with-link") == "it takes no --with-link"
    assert misunderstood("delete node x --with-links") == ""
