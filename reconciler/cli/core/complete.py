"""Completes words of a command line: kinds, and names of objects. Fast, and silent on every error.

Names come from the controller; if none runs, from the newest commit of the repository.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from .app import Settings

ANSWER_SECONDS = 1.0


def objects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete kinds, then names of the typed kind; or `KIND/NAME`; or a name alone."""
    from reconciler.resources import PLURALS

    from .kinds import EVERYTHING

    typed = _typed(ctx, param)
    if "/" in incomplete:
        kind, _, _ = incomplete.partition("/")
        return _items((f"{kind}/{found}" for found in _names(ctx, kind)), incomplete)
    if typed and "/" not in typed[0]:
        return _items(_names(ctx, typed[0]), incomplete, typed)
    words = [*_kind_words(incomplete.lower()), *([EVERYTHING] if EVERYTHING.startswith(incomplete) else [])]
    if words:
        return _items(words)
    return _items(sorted({name for kind in PLURALS.values() for name in _names(ctx, kind)}), incomplete)


def deployments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of deployments and ranks."""
    if _typed(ctx, param):
        return []
    found = [*_names(ctx, "modeldeployments"), *(_names(ctx, "ranks") if "." in incomplete else ())]
    return _items(found, incomplete)


def with_logs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of deployments and ranks, and jobs as `job/NAME`."""
    if "/" in incomplete or (incomplete and "job/".startswith(incomplete)):
        return jobs(ctx, param, incomplete)
    return deployments(ctx, param, incomplete)


def jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete jobs that are not typed yet, as `job/NAME`."""
    return _items((f"job/{name}" for name in _names(ctx, "jobs")), incomplete, _typed(ctx, param))


def incidents(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete numbers of incidents; or kinds and names."""
    if _typed(ctx, param):
        return []
    if incomplete and not incomplete.isdigit():
        return objects(ctx, param, incomplete)
    from reconciler.wire.admin import ListIncidents

    with contextlib.suppress(ReconcilerError, OSError):
        return _items((str(item["id"]) for item in _asked(_settings(ctx), ListIncidents())), incomplete)
    return []


def _of_kind(kind: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of a kind that are not typed yet."""
    return _items(_names(ctx, kind), incomplete, _typed(ctx, param))


nodes, models, api_keys = (partial(_of_kind, kind) for kind in ("nodes", "models", "apikeys"))


def fields(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete kinds, and after a dot the fields."""
    from .fields import field_at
    from .kinds import kind_named, plural

    path, dot, _ = incomplete.rpartition(".")
    if not dot:
        return _items(map(plural, _every_kind()), incomplete.lower())
    word, *steps = path.split(".")
    try:
        found = [field.name for field in field_at(kind_named(word), steps).fields()]
    except (click.UsageError, ReconcilerError):
        return []
    return _items((f"{path}.{name}" for name in found), incomplete)


def _typed(ctx: click.Context, param: click.Parameter) -> tuple[str, ...]:
    value = ctx.params.get(param.name or "")
    return tuple(value) if isinstance(value, tuple | list) else (value,) if value else ()


def _items(words: Iterable[str], begin: str = "", left_out: Collection[str] = ()) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(begin) and word not in left_out]


def _every_kind() -> tuple[str, ...]:
    from reconciler.resources import KIND_NAMES

    from .kinds import READ_ONLY

    return (*KIND_NAMES, *READ_ONLY)


def _kind_words(incomplete: str) -> list[str]:
    """Return a word that begins with ``incomplete`` for each kind: its plural, else the longest of its other words."""
    from reconciler.resources import SHORT_NAMES

    from .kinds import plural

    found = []
    for kind in _every_kind():
        others = sorted(SHORT_NAMES.get(kind, ()), key=len, reverse=True)
        found += [word for word in (plural(kind), *others) if word.startswith(incomplete)][:1]
    return found


# --- names -----------------------------------------------------------------------------------------


def _names(ctx: click.Context, word: str) -> list[str]:
    from .kinds import kind_named

    try:
        kind = kind_named(word)
    except click.UsageError:
        return []
    for source in (_of_controller, _of_repository):
        with contextlib.suppress(ReconcilerError, OSError, click.UsageError):
            return sorted(source(_settings(ctx), kind))
    return []


def _settings(ctx: click.Context) -> Settings:
    """Return the settings from the group's own options, because the group does not run during completion."""
    from .app import settings_of

    root = ctx.find_root()
    if root.obj is None:
        root.obj = settings_of(root.params["home"], root.params["chosen"], asks=False)
        if root.obj.away is not None:
            root.call_on_close(root.obj.away.close)
    settings: Settings = root.obj
    return settings


def _asked(settings: Settings, question: Any) -> list[Any]:
    from .client import Client

    with Client(settings.socket, ANSWER_SECONDS) as client:
        found: list[Any] = client.ask(question)["items"]
    return found


def _of_controller(settings: Settings, kind: str) -> list[str]:
    from reconciler.wire.admin import Get

    return [item["metadata"]["name"] for item in _asked(settings, Get(kind))]


def _of_repository(settings: Settings, kind: str) -> list[str]:
    from reconciler.source.git.repository import ClusterRepo
    from reconciler.source.yaml.objects import names_in

    repo = ClusterRepo(settings.repo)
    head = repo.head()
    return names_in(repo.read(head) if head else {}, kind)
