"""The pages of acts: a GET shows the commit and the command, a POST writes the commit and leads to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from reconciler.console.access.login import form_of
from reconciler.console.access.visitor import visitor_of
from reconciler.console.feed import Feed
from reconciler.console.pages import Page, Pages
from reconciler.console.view.acts import KINDS, command, label, replicas_of, title
from reconciler.console.view.history import files_of
from reconciler.errors import ReconcilerError, Refused, Unreachable
from reconciler.resources.verbs import ACTS
from reconciler.wire.admin import Operate

from .form import DURATIONS, REASON_MAX, Tokens, Typed, typed

log = logging.getLogger(__name__)

PATH = "/act/{verb}/{kind}/{name}"
FORM_BYTES_MAX = 8192
UNSURE = "It may have been written: check the history before you try again."
UNWRITTEN = "Nothing was written."
STALE = (
    "This page was open for too long, belongs to somebody else, or showed another number. Nothing was written:"
    " check it again, then confirm."
)


class Acts:
    """Shows the commit of an act, asks once, and has the controller write it. ``clock``: seconds since the Unix epoch."""

    def __init__(self, feed: Feed, pages: Pages, clock: Callable[[], float]) -> None:
        self._feed = feed
        self._pages = pages
        self._clock = clock
        self._tokens = Tokens()

    def routes(self) -> list[Route]:
        return [
            Route(PATH, self._ask, methods=["GET"], name="Act"),
            Route(PATH, self._do, methods=["POST"], name="Do"),
        ]

    async def _ask(self, request: Request) -> Response:
        return await self._shown(request, typed(dict(request.query_params)), "", 200)

    async def _do(self, request: Request) -> Response:
        form = typed(await form_of(request, FORM_BYTES_MAX) or {})
        if not visitor_of(request).operate:
            return await self._shown(request, form, UNWRITTEN, 403)
        if not self._tokens.good(form.token, _bound_to(request, form), self._clock()):
            return await self._shown(request, form, STALE, 403)
        sent = self._feed.answers
        try:
            answer = await self._feed.ask(await _question(request, form, dry=False))
        except (Refused, Unreachable) as error:
            status = 409 if isinstance(error, Refused) else 503
            end = UNWRITTEN if isinstance(error, Refused) or not sent else UNSURE
            return await self._shown(request, form, f"{_sentence(error)} {end}", status)
        log.info("%s by %s: %s", request.url.path, answer["author"], answer["revision"])
        return RedirectResponse(f"/history/{answer['revision']}" if answer["revision"] else "/history", 303)

    async def _shown(self, request: Request, form: Typed, problem: str, status: int) -> Response:
        verb, kind, name = (request.path_params[each] for each in ("verb", "kind", "name"))
        if verb not in ACTS or kind not in KINDS:
            return RedirectResponse("/", 303)
        asks_first = ACTS[verb].counts and not form.replicas
        try:
            answer = None if asks_first else await self._feed.ask(await _question(request, form, dry=True))
        except ReconcilerError as error:
            answer = None
            problem = problem or f"{_sentence(error)} {UNWRITTEN}"
            status = status if status != 200 else 409 if isinstance(error, Refused) else 503
        visitor = visitor_of(request)
        present = replicas_of(self._feed.snapshot.named(KINDS[kind], name)) if ACTS[verb].counts else None
        values: dict[str, Any] = {
            "of": ACTS[verb],
            "label": label(verb, form.replicas, present),
            "replicas": form.replicas or ("" if present is None else str(present)),
            "asks_first": asks_first,
            "revision": name if kind == "revision" else "",
            "form": form,
            "durations": [each for each in DURATIONS if each],
            "reason_max": REASON_MAX,
            "problem": problem,
            "answer": answer,
            "files": files_of(answer) if answer else (),
            "command": command(
                verb,
                kind,
                name,
                form.reason,
                form.duration,
                form.force,
                form.replicas,
                to_revision=form.to,
                run=form.run,
            ),
            "visitor": visitor,
            "token": self._tokens.make(_bound_to(request, form), self._clock()),
        }
        page = Page(
            request.url.path,
            title(values["label"], kind, name),
            ("act",),
            lambda s, n: values,
            still=True,
            reloads=False,
        )
        html = self._pages.whole(page, "", self._feed.snapshot, wall=False, key=visitor.key)
        return HTMLResponse(html, status, {"cache-control": "no-store"})


async def _question(request: Request, form: Typed, dry: bool) -> Operate:
    author = await asyncio.to_thread(visitor_of(request).author)
    verb, kind, name = (request.path_params[each] for each in ("verb", "kind", "name"))
    seconds = form.seconds if ACTS[verb].ends else None
    return Operate(
        verb,
        KINDS[kind],
        name,
        author.name,
        author.email,
        form.reason,
        seconds,
        form.force,
        dry,
        form.replicas,
        form.to,
        int(form.run or 0),
    )


def _bound_to(request: Request, form: Typed) -> str:
    """Return the text that a token signs: the act, the number or the commit shown with it, and the key of the login."""
    return " ".join((request.url.path, form.replicas, form.to, form.run, visitor_of(request).key))


def _sentence(error: ReconcilerError) -> str:
    text = str(error).strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
