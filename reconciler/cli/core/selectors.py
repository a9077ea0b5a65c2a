"""Reads label selectors (`-l`), with the syntax and meaning of kubectl."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import click

from reconciler.cli.output.parsed import Parsed

_KEY = r"(?P<key>[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_VALUE = r"[-A-Za-z0-9_.]*"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        (?P<absent>!)\s*{_KEY.replace("key", "absent_key")}
      | {_KEY}\s*
        (?: (?P<equals>==?|!=)\s*(?P<value>{_VALUE})
          | \s(?P<membership>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_EXPECTED = "expected requirements such as: pool=studios,tier!=test,zone in (a, b),zone notin (c),gpu,!old"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement on one label. Without ``values`` and ``negated`` the label only has to exist."""

    key: str
    values: frozenset[str] | None
    negated: bool

    def met_by(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet it. As in kubectl, objects without the label meet `!=` and `notin`."""
        there = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return there != self.negated


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all be met; without any, everything is selected."""

    requirements: tuple[Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.met_by(labels) for requirement in self.requirements)


def parse_selector(text: str) -> Selector:
    """Return the selector that ``text`` means. Raises ``ValueError`` with what was expected."""
    found: list[Requirement] = []
    at = 0
    if not text.strip():
        return Selector()
    while at < len(text):
        match = _REQUIREMENT.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:].strip()!r} is not a label selector; {_EXPECTED}")
        found.append(_requirement(match))
        at = match.end()
    if text.rstrip().endswith(","):
        raise ValueError(f"{text!r} ends with a comma; {_EXPECTED}")
    return Selector(tuple(found))


def _requirement(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent_key"], None, True)
    if match["equals"]:
        return Requirement(match["key"], frozenset({match["value"]}), match["equals"] == "!=")
    if match["membership"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], values, match["membership"] == "notin")
    return Requirement(match["key"], None, False)


selector_option = click.option(
    "-l",
    "--selector",
    type=Parsed("selector", parse_selector),
    metavar="SELECTOR",
    help="Select objects by label: =, ==, !=, in, notin, KEY, !KEY; separate several by commas.",
)
"""Passed as ``selector``: a ``Selector``, or None if it was not given."""
