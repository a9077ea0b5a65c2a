"""`label`, `annotate`: set and remove labels and annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import (
    Files,
    How,
    WritingCommand,
    carry_out,
    write_options,
)
from reconciler.cli.core.gathered import gathered
from reconciler.cli.core.given import files_option
from reconciler.cli.core.selectors import Selector, selector_option
from reconciler.cli.core.targets import ALL_OPTION, Targets, labels_of
from reconciler.cli.core.waiting import finish
from reconciler.errors import Refused, listing

KEY = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?")
"""Keys that a selector can name."""
VALUE = re.compile(r"[-A-Za-z0-9_.]{0,63}")
EXPECTED = (
    'at most 63 letters, digits, "-", "_" and "."; for other text: reconciler annotate KIND/NAME KEY=VALUE'
)
Wanted = dict[str, str | None]
"""New values by key; None removes the key."""


@dataclass(frozen=True, slots=True)
class _Asked:
    targets: Targets
    wanted: Wanted
    overwrite: bool


def _asked(
    words: tuple[str, ...],
    paths: tuple[str, ...],
    selector: Selector | None,
    everything: bool,
    overwrite: bool,
) -> _Asked:
    pairs = [word for word in words if "=" in word or word.endswith("-")]
    objects = tuple(word for word in words if word not in pairs)
    wanted = _wanted(pairs)
    return _Asked(Targets.parse(objects, paths, selector, everything), wanted, overwrite)


_options = gathered(
    "asked",
    _asked,
    click.argument(
        "words", nargs=-1, metavar="KIND/NAME... KEY=VALUE | KEY-...", shell_complete=complete.objects
    ),
    files_option(required=False),
    selector_option,
    ALL_OPTION,
    click.option("--overwrite", is_flag=True, help="Replace existing values."),
)


def _wanted(pairs: list[str]) -> Wanted:
    if not pairs:
        raise click.UsageError("expected KEY=VALUE to set a value, or KEY- to remove one")
    wanted: Wanted = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key if equals else pair.removesuffix("-")
        if not KEY.fullmatch(key):
            raise click.UsageError(f'"{key}" is no key; expected letters, digits, "-", "_", "." and "/"')
        if key in wanted:
            raise click.UsageError(f'"{key}" is named twice')
        wanted[key] = value if equals else None
    return wanted


@click.command(cls=WritingCommand)
@_options
@write_options
@click.pass_obj
def label(settings: Settings, asked: _Asked, how: How) -> None:
    """Set or remove labels of objects, by a commit that changes nothing else.

    KEY- removes a label. A label that has another value is only changed with --overwrite.

    \b
    Examples:
      reconciler label node/node-a pool=studios
      reconciler label nodes --all rack-
      reconciler label deployment/tiny tier=chat --overwrite
    """
    for key, value in asked.wanted.items():
        if value is not None and not VALUE.fullmatch(value):
            raise click.UsageError(f'{key}: "{value}" could not be selected with -l; expected {EXPECTED}')
    _change(settings, asked, how, "labels", "Label", "labeled")


@click.command(cls=WritingCommand)
@_options
@write_options
@click.pass_obj
def annotate(settings: Settings, asked: _Asked, how: How) -> None:
    """Set or remove annotations of objects, by a commit that changes nothing else.

    KEY- removes an annotation. One that has another value is only changed with --overwrite.

    \b
    Examples:
      reconciler annotate node/node-a owner='Ada, room 4'
      reconciler annotate node/node-a owner-
    """
    _change(settings, asked, how, "annotations", "Annotate", "annotated")


def _change(settings: Settings, asked: _Asked, how: How, field: str, verb: str, done: str) -> None:
    wanted = asked.wanted

    def decide(files: Files) -> Any:
        from reconciler.source.editing import Values, set_fields
        from reconciler.source.yaml.documents import load
        from reconciler.source.yaml.fields import REMOVED

        chosen = asked.targets.found_in(labels_of(files))
        if not chosen:
            raise Refused("NotFound", f"no objects are selected; {listing('all')}")
        if not asked.overwrite:
            for document in load(files):
                if document.key in chosen:
                    _check_new(document.key, getattr(document.manifest.metadata, field), wanted)
        values: Values = {
            ("metadata", field, key): REMOVED if value is None else value for key, value in wanted.items()
        }
        return set_fields(files, dict.fromkeys(chosen, values))

    only_removes = all(value is None for value in wanted.values())
    word = "unlabeled" if only_removes and field == "labels" else done
    landed = carry_out(settings, how, decide, verb)
    finish(settings, how, landed, {"configured": word, "unchanged": f"not {done}"})


def _check_new(key: tuple[str, str], present: Mapping[str, str], wanted: Wanted) -> None:
    for name, value in wanted.items():
        if value is not None and present.get(name, value) != value:
            text = (
                f"{key[0].lower()}/{key[1]}: '{name}' already has a value ({present[name]}); add: --overwrite"
            )
            raise Refused("AlreadyThere", text)
