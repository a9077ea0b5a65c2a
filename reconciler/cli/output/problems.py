"""Prints the problems of manifests as data: for scripts, for GitHub's and Forgejo's annotations, and as SARIF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from reconciler import __version__
from reconciler.errors import Problem

from .form import print_body

FORMATS = ("github", "sarif")
"""Formats in addition to JSON and YAML."""
RULE = "manifest"


def print_problems(objects: Sequence[str], problems: Sequence[Problem], output: str) -> None:
    """Print the objects that were read, and their problems."""
    if output == "github":
        for problem in problems:
            click.echo(_command(problem))
    elif output == "sarif":
        print_body(_sarif(problems), "json")
    else:
        found = [
            {"file": p.file, "line": p.line, "column": p.column, "field": p.path, "message": p.text}
            for p in problems
        ]
        print_body({"valid": not problems, "objects": list(objects), "problems": found}, output)


def _command(problem: Problem) -> str:
    """Return a workflow command (docs.github.com, "Workflow commands", "Setting an error message")."""
    file = _escaped(problem.file).replace(":", "%3A").replace(",", "%2C")
    where = f"file={file},line={problem.line},col={problem.column}"
    return f"::error {where}::{_escaped(_message(problem))}"


def _message(problem: Problem) -> str:
    return f"{problem.path}: {problem.text}" if problem.path else problem.text


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _sarif(problems: Sequence[Problem]) -> dict[str, Any]:
    """Return a log of one run (SARIF 2.1.0, OASIS standard)."""
    results = [
        {
            "ruleId": RULE,
            "level": "error",
            "message": {"text": _message(problem)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": problem.file},
                        "region": {"startLine": problem.line, "startColumn": problem.column},
                    }
                }
            ],
        }
        for problem in problems
    ]
    rule = {"id": RULE, "shortDescription": {"text": "A manifest is not valid"}}
    driver = {"name": "reconciler", "version": __version__, "rules": [rule]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
