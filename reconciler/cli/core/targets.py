"""Selects objects of the repository for a command: by name, by file, by label, or all of a kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from reconciler.errors import Refused
from reconciler.resources import KIND_NAMES, PLURALS
from reconciler.wire.admin import Get

from . import complete
from .client import Client
from .gathered import gathered
from .given import files_option, load_paths
from .kinds import RANK, ambiguous, is_kind, kind_named, not_found, objects_named
from .selectors import Selector, selector_option

if TYPE_CHECKING:
    from reconciler.source.yaml.documents import Document

Key = tuple[str, str]

ALONE = ""
EXPECTED = "expected KIND NAME..., KIND/NAME..., -f FILE, or KIND with -l SELECTOR or --all"


WORDS = click.argument(
    "words", nargs=-1, metavar="KIND NAME... | KIND/NAME...", shell_complete=complete.objects
)
ALL_OPTION = click.option("--all", "everything", is_flag=True, help="Select all objects of a kind.")


@dataclass(frozen=True, slots=True)
class Targets:
    """The objects that a command line selects."""

    named: tuple[Key, ...] = ()
    """Kinds and names. The kind is ``ALONE`` for a name without one, until ``of_kind`` or ``choose`` finds it."""
    kinds: tuple[str, ...] = ()
    """Kinds whose objects are targets if ``selector`` selects them."""
    selector: Selector | None = None

    @classmethod
    def parse(
        cls, words: tuple[str, ...], paths: tuple[str, ...], selector: Selector | None, everything: bool
    ) -> Targets:
        """Return the targets that the words and options of a command select. Raises ``UsageError`` if that is unclear."""
        if paths:
            if words or selector or everything:
                raise click.UsageError(f"-f already selects the objects and cannot be combined; {EXPECTED}")
            return cls(tuple(document.key for document in load_paths(paths)))
        if not words:
            raise click.UsageError(EXPECTED)
        if selector is not None or everything:
            if len(words) > 1 or "/" in words[0]:
                raise click.UsageError(f"-l and --all need a kind and no names, got: {' '.join(words)}")
            chosen = objects_named(words)
            kinds = KIND_NAMES if chosen[0].kind is None else tuple(_written(c.kind) for c in chosen)
            return cls(kinds=kinds, selector=selector)
        return cls(_named(words))

    def of_kind(self, kind: str) -> Targets:
        """Return the targets of a command for one kind: names alone are of this kind."""
        return replace(self, named=tuple((key[0] or kind, key[1]) for key in self.named))

    def choose(
        self, labels: Mapping[Key, Mapping[str, str]], alone: bool = True
    ) -> tuple[list[Key], list[Key]]:
        """Return the selected keys of ``labels`` (the existing objects' labels by key), and the missing keys.

        Raises ``UsageError`` for a name alone that means no object or several; if ``alone`` is false, for any name alone.
        """
        chosen = [
            key
            for key, own in labels.items()
            if key[0] in self.kinds and (self.selector is None or self.selector.selects(own))
        ]
        named = dict.fromkeys(key if key[0] else _meant(key[1], labels, alone) for key in self.named)
        chosen += [key for key in named if key in labels]
        return chosen, [key for key in named if key not in labels]

    def found_in(self, labels: Mapping[Key, Mapping[str, str]]) -> list[Key]:
        """Return the selected keys of ``labels``. Raises ``Refused`` if one is missing, and ``UsageError`` like ``choose``."""
        chosen, missing = self.choose(labels)
        if missing:
            raise missing_all(missing, labels)
        return chosen

    def only(
        self, kind: str, labels: Mapping[Key, Mapping[str, str]], refused: Callable[[str], Refused]
    ) -> list[Key]:
        """Return the selected keys, all of one kind. Raises ``Refused`` also with the name of an object of another kind, or with an
        empty text if none is selected."""
        chosen = self.of_kind(kind).found_in(labels)
        wrong = next((f"{other.lower()}/{name}" for other, name in chosen if other != kind), None)
        if wrong is not None or not chosen:
            raise refused(wrong or "")
        return chosen


target_options = gathered(
    "targets", Targets.parse, WORDS, files_option(required=False), selector_option, ALL_OPTION
)


def _meant(name: str, there: Collection[Key], alone: bool = True) -> Key:
    """Return the only object of a name."""
    found = [key for key in there if key[1] == name]
    if len(found) == 1 and alone:
        return found[0]
    if not found:
        kind_named(name)  # its error lists the kinds
    if len(found) == 1:
        raise click.UsageError(f'"{name}" is a name without a kind; say: {found[0][0].lower()}/{name}')
    raise click.UsageError(ambiguous(name, [kind for kind, _ in found]))


def _named(words: tuple[str, ...]) -> tuple[Key, ...]:
    if not any("/" in word or "," in word for word in words) and not is_kind(words[0]):
        return tuple((ALONE, word) for word in words)
    chosen = [(_written(choice.kind), choice.names) for choice in objects_named(words)]
    if not all(names for _, names in chosen):
        raise click.UsageError(f"{' '.join(words)}: a name is missing; {EXPECTED}")
    return tuple((kind, name) for kind, names in chosen for name in names)


def _written(kind: str | None) -> str:
    """Return the kind, which must have manifests."""
    if kind is None:
        raise click.UsageError(EXPECTED)
    if kind == RANK:
        kinds = ", ".join(PLURALS.values())
        raise click.UsageError(
            f"ranks have no manifests, they follow from deployments; expected one of {kinds}"
        )
    return kind


def one_object(words: tuple[str, ...], kind: str | None = None, there: Collection[Key] = ()) -> Key:
    """Return kind and name of `KIND NAME`, `KIND/NAME`, or of a NAME alone.

    A name alone is of ``kind`` if that is given; else it is searched in ``there``.
    """
    found = _named(words) if words else ()
    if len(found) == 1 and not found[0][0]:
        return (kind, found[0][1]) if kind else _meant(found[0][1], there)
    if len(found) != 1:
        raise click.UsageError(
            f"expected KIND/NAME, such as deployment/tiny, got: {' '.join(words) or 'nothing'}"
        )
    return found[0]


def missing_all(missing: Iterable[Key], there: Collection[Key]) -> Refused:
    """Return the error for missing objects, with the nearest existing names."""
    errors = [str(not_found(kind, name, [n for k, n in there if k == kind])) for kind, name in missing]
    return Refused("NotFound", "\n".join(errors))


def check_there(client: Client, kind: str, names: Iterable[str]) -> None:
    """Raise ``Refused`` for names that no object of a kind has in the controller, with the nearest ones."""
    there = {(kind, item["metadata"]["name"]) for item in client.ask(Get(kind))["items"]}
    if missing := [(kind, name) for name in names if (kind, name) not in there]:
        raise missing_all(missing, there)


def document_of(files: Mapping[str, bytes], key: Key) -> Document:
    """Return the document of an object. Raises ``Refused`` if there is none, with the nearest names."""
    from reconciler.source.yaml.documents import load

    found = next((document for document in load(files) if document.key == key), None)
    if found is None:
        raise missing_all((key,), labels_of(files))
    return found


def labels_of(files: Mapping[str, bytes]) -> dict[Key, Mapping[str, str]]:
    """Return the labels of every object in the files, sorted by kind and name."""
    from reconciler.source.yaml.documents import load

    found = {document.key: document.manifest.metadata.labels for document in load(files)}
    return dict(sorted(found.items(), key=lambda entry: (KIND_NAMES.index(entry[0][0]), entry[0][1])))
