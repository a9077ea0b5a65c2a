"""`support`: write all facts about a cluster into one file, without secrets."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from reconciler import __version__
from reconciler.cli.commands.cluster.archive import new_target, target_option
from reconciler.cli.commands.machines.doctor import examined
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import present
from reconciler.cli.output.screen import Screen, quiet_screen
from reconciler.cli.output.table_layout import size
from reconciler.errors import Invalid, ReconcilerError, Unreachable
from reconciler.secret_files import find_secret, read_secret
from reconciler.wire.admin import (
    Get,
    ListEvents,
    ListIncidents,
    ReadRankLog,
    ShowPlan,
    ShowStatus,
    ShowUsage,
)
from reconciler.wire.launch import RankId
from reconciler.wire.objects import Rank

from .redaction import redacted

LOG_BYTES = 256 * 1024
RANKS_MAX = 32
"""Most ranks whose logs are taken, the newest first."""
EVENTS_MAX = 2000
INCIDENTS_MAX = 100
DOCTOR_ROUNDS, DOCTOR_SECONDS = 30, 2.0
SERVICES = ("controller", "gateway")

_PLACE = re.compile(r"\b(env|file|passwordFile):[ \t]*[\"']?([^\s\"',}]+)")
"""The place of a secret in a manifest."""

QUESTIONS: tuple[tuple[str, Any], ...] = (
    ("status.json", ShowStatus()),
    ("objects.json", Get()),
    ("operations.json", Get("Operation")),
    ("ranks.json", Get("Rank", ended=True)),
    ("plan.json", ShowPlan()),
    ("usage.json", ShowUsage()),
    ("events.json", ListEvents(limit=EVENTS_MAX)),
    ("incidents.json", ListIncidents(limit=INCIDENTS_MAX)),
)
"""Questions to the controller, by the name of the file with the answer."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the bundle; without ``content``, a missing part with the reason."""

    name: str
    content: str | None
    problem: str = ""


@click.command()
@target_option
@click.option(
    "--doctor/--no-doctor",
    "ask_machines",
    default=True,
    help="Ask the machines for their faults; takes up to a minute.",
)
@click.pass_obj
def support(settings: Settings, output: Path, ask_machines: bool) -> None:
    """Collect the cluster's state and logs in one file, without secrets.

    The file has manifests, states, events, incidents, the plan, the doctor's findings, versions, and the ends of logs.
    Secrets, hashes of keys and everything that looks like one are removed; the log of requests is left out. Lists the
    contents of the file; check them before you give it away. Works without a controller too.

    \b
    Examples:
      reconciler support
      reconciler support -o /tmp/studio.tar.gz --no-doctor
    """
    now = datetime.now(UTC)
    target = new_target(output, "reconciler-support", now)
    screen = quiet_screen()
    found = []
    for part in _parts(settings, ask_machines, screen):
        screen.show(f"{part.name} ...")
        found.append(part)
    known = _known_secrets([part.content or "" for part in found if part.name.startswith("manifests/")])
    parts = []
    for part in found:
        screen.show(f"taking secrets out of {part.name} ...")
        parts.append(
            Part(part.name, part.content and redacted(part.content, known), redacted(part.problem, known))
        )
    screen.clear()
    listing = "\n".join(map(_line, parts))
    _write(target, [Part("CONTENTS.txt", listing + "\n"), *parts], now)
    click.echo(listing)
    click.echo(f"{target} ({size(target.stat().st_size)}); look through it before you pass it on")


def _known_secrets(manifests: list[str]) -> set[str]:
    """Return the secrets of files and variables that manifests name, as far as this user can read them."""
    known = set()
    for kind, place in _PLACE.findall("\n".join(manifests)):
        with contextlib.suppress(Invalid):
            known.add(find_secret(None, place, os.environ) if kind == "env" else read_secret(place))
    return known


def _line(part: Part) -> str:
    found = size(len(part.content.encode())) if part.content is not None else "-"
    return f"{found:>10}  {part.name}{f'   not there: {part.problem}' if part.problem else ''}"


def _parts(settings: Settings, ask_machines: bool, screen: Screen) -> Iterator[Part]:
    yield Part("versions.json", _json(_versions(settings)))
    yield from _manifests(settings)
    try:
        with Client(settings.socket) as client:
            yield from _of_controller(client, ask_machines, screen)
    except (ReconcilerError, OSError) as error:
        yield Part("controller", None, str(error))
    for service in SERVICES:
        yield _part(f"logs/{service}.log", partial(_end_of_log, settings, service))


def _versions(settings: Settings) -> dict[str, Any]:
    return {
        "client": __version__,
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "context": settings.away.context.where if settings.away else str(settings.place),
    }


def _manifests(settings: Settings) -> Iterator[Part]:
    try:
        revision, files = present(settings)
    except (ReconcilerError, OSError) as error:
        yield Part("manifests", None, str(error))
        return
    yield Part("manifests/REVISION", f"{revision}\n")
    for name, content in sorted(files.items()):
        yield Part(f"manifests/{name}", content.decode("utf-8", "replace"))


def _of_controller(client: Client, ask_machines: bool, screen: Screen) -> Iterator[Part]:
    ranks: list[Rank] = []
    for name, question in QUESTIONS:
        part = _part(name, partial(_answer, client, question))
        if name == "ranks.json" and part.content is not None:
            ranks = json.loads(part.content)["items"]
        yield part
    if ask_machines:
        found = partial(examined, client, screen, rounds=DOCTOR_ROUNDS, held_back_seconds=DOCTOR_SECONDS)
        yield _part("doctor.json", lambda: _json(found()))
    for rank in sorted(ranks, key=lambda rank: rank["startedAt"] or "", reverse=True)[:RANKS_MAX]:
        id = RankId.parse(rank["metadata"]["name"])
        yield _part(f"logs/{id}.log", partial(_rank_log, client, id))


def _part(name: str, content: Callable[[], str]) -> Part:
    """Return a part, or the reason why it is missing. Raises ``Unreachable`` if the controller has ended."""
    try:
        return Part(name, content())
    except Unreachable:
        raise
    except (ReconcilerError, OSError) as error:
        return Part(name, None, str(error))


def _answer(client: Client, question: Any) -> str:
    return _json(client.ask(question))


def _rank_log(client: Client, id: RankId) -> str:
    body = client.ask(ReadRankLog(id, LOG_BYTES))
    text, begin = body["text"], body.get("begin")
    if begin is None:  # an older agent: what it cuts lacks at most three bytes of a character at either end
        return _from_a_line(text) if len(text.encode()) >= LOG_BYTES - 6 else text
    return _from_a_line(text) if begin > 0 else text


def _end_of_log(settings: Settings, service: str) -> str:
    path = settings.home / "logs" / f"{service}.log"
    with path.open("rb") as stream:
        left_out = max(0, path.stat().st_size - LOG_BYTES)
        stream.seek(left_out)
        text = stream.read().decode("utf-8", "replace")
    return _from_a_line(text) if left_out else text


def _from_a_line(text: str) -> str:
    """Return the end of a log from its first whole line on: half a line may have a secret without its name."""
    return text.partition("\n")[2]


def _json(body: Any) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _write(target: Path, parts: list[Part], now: datetime) -> None:
    """Write the file, which only this user can read."""
    folder = target.name.removesuffix(".tar.gz")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for part in parts:
            if part.content is None:
                continue
            content = part.content.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{folder}/{part.name}")
            entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), 0o600
            archive.addfile(entry, io.BytesIO(content))
