"""The pages with their parts, and the HTML of these. The same parts make the first page and each later change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from reconciler import __version__
from reconciler.wire import answers
from reconciler.wire.admin import ShowCommit
from reconciler.wire.answers import Asks
from reconciler.wire.launch import JOB_PREFIX

from .files import address_of
from .snapshot import Snapshot
from .view.acts import acts_of
from .view.cabling import cablings
from .view.chat import SETTINGS, chat, chosen, joined, models
from .view.deployment import deployment, deployments
from .view.history import commit, held, history, waiting_change
from .view.incident import logs_of, stories
from .view.job import job, jobs, look_of, owner_of
from .view.machine import machines, scale
from .view.metrics import RANGES, metrics, metrics_of, spark
from .view.node import node
from .view.operation import commits_wait, standing
from .view.overview import overview, pulse
from .view.plots import Span, span_of
from .view.quantities import duration, loaded, rate, size, watts
from .view.search import search

EVENTS_SHOWN = 200
PARTS_MAX = 4096
"""Most pages to keep parts of: names of deployments come from the browser."""
View = Callable[[Snapshot, str], Mapping[str, Any]]
"""From the snapshot and the page's name (such as a deployment's; empty for most pages) to a template's variables."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path, with ``{name}`` if each object has one, its title, and its parts in order."""

    path: str
    title: str
    parts: tuple[str, ...]
    """Names of templates, which are also the ids of their sections."""
    view: View
    still: bool = False
    """True if its parts stay as they were loaded."""
    fixed: tuple[str, ...] = ()
    """Names of the templates below the parts, which never change while a page is open."""
    scripts: tuple[str, ...] = ()
    """Scripts in addition to those of every page."""
    reloads: bool = True
    """True if the page reloads by itself without scripts; false if people type on it."""
    asks: Callable[[str], Asks[answers.ShownCommit]] | None = None
    """From the page's name to the question for this page alone; ``Snapshot.answer`` has the answer."""
    query: str = ""
    """The field of the address's query with the page's name, if its path has none."""

    @property
    def in_menu(self) -> bool:
        """Return whether the menu has it: not a page of one object, and not the search."""
        return "{name}" not in self.path and self.path != "/search"

    def address(self, name: str) -> str:
        """Return its address for a name."""
        if self.query:
            return f"{self.path}?{urlencode({self.query: name})}" if name else self.path
        return self.path.replace("{name}", quote(name, safe=""))


def _events(snapshot: Snapshot, about: str) -> dict[str, Any]:
    found = [event for event in reversed(snapshot.events) if not about or event["object"] == about]
    known = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in snapshot.objects}
    named = {*known, *(event["object"] for event in snapshot.events), *filter(None, [about])}
    return {"events": tuple(found)[:EVENTS_SHOWN], "about": about, "objects": sorted(named)}


def _chat(snapshot: Snapshot, name: str) -> dict[str, Any]:
    name = chosen(snapshot, name)
    nothing_said: dict[str, Any] = {
        "said": (),
        "kept": "[]",
        "typed": dict.fromkeys(SETTINGS, ""),
        "problem": "",
    }
    return {"name": name, "chat": chat(snapshot, name), "models": models(snapshot, name), **nothing_said}


def _nodes(snapshot: Snapshot, _: str) -> dict[str, Any]:
    found = machines(snapshot)
    return {"rows": found, "watts_scale": scale(found)}


def _metrics(snapshot: Snapshot, name: str) -> dict[str, Any]:
    found = metrics(snapshot, name)
    return {"metrics": found, "ranges": [range for range, _ in RANGES], **_ends(found.span)}


def _deployment(snapshot: Snapshot, name: str) -> dict[str, Any]:
    answer = snapshot.metrics.get(RANGES[0][0])
    span = None if answer is None else span_of(answer)
    found = deployment(snapshot, name)
    over_time = None if found is None else metrics_of(snapshot, name)
    return {"deployment": found, "over_time": over_time, **_ends(span)}


def _history(snapshot: Snapshot, _: str) -> dict[str, Any]:
    return {"held": held(snapshot), "history": history(snapshot), "commits_wait": commits_wait(snapshot)}


def _ends(span: Span | None) -> dict[str, str]:
    """Return the beginning and the end of the time of plots."""
    return {} if span is None else {"begins": span.begins.isoformat(), "ends": span.ends.isoformat()}


CHAT = Page(
    "/chat/{name}",
    "Chat with {name}",
    ("chat_state",),
    _chat,
    fixed=("chat",),
    scripts=("chat_text.js", "chat_answer.js", "chat_message.js", "chat.js"),
    reloads=False,
)
PAGES = (
    Page(
        "/",
        "Overview",
        ("headline", "troubles", "figures", "served", "machines", "latest"),
        lambda s, _: {"overview": overview(s)},
    ),
    Page("/cabling", "Cabling", ("cabling",), lambda s, _: {"cablings": cablings(s)}),
    Page("/nodes", "Machines", ("nodes",), _nodes),
    Page("/nodes/{name}", "Machine {name}", ("node",), lambda s, name: {"node": node(s, name)}),
    Page("/deployments", "Deployments", ("deployments",), lambda s, _: {"deployments": deployments(s)}),
    Page("/deployments/{name}", "Deployment {name}", ("deployment", "over_time"), _deployment),
    Page("/jobs", "Jobs", ("jobs",), lambda s, _: {"jobs": jobs(s)}),
    Page("/jobs/{name}", "Job {name}", ("job",), lambda s, name: {"job": job(s, name)}),
    Page("/metrics", "Metrics", ("metrics",), _metrics, query="since"),
    replace(CHAT, path="/chat", title="Chat"),
    CHAT,
    Page("/incidents", "Incidents", ("incidents",), lambda s, _: {"stories": stories(s), "whole": False}),
    Page(
        "/incidents/{name}",
        "Incident {name}",
        ("incidents",),
        lambda s, name: {"stories": stories(s, name), "whole": True},
    ),
    Page("/events", "Events", ("event_filter", "events"), _events, query="object"),
    Page("/history", "History", ("held", "commits"), _history),
    Page(
        "/search",
        "Search",
        ("search",),
        lambda s, query: {"query": query, "found": search(s, query)},
        query="q",
    ),
    Page("/history/{name}", "Commit", ("commit",), lambda s, _: {"commit": commit(s)}, asks=ShowCommit),
)
MISSING = Page(
    "/404", "No such page", ("missing",), lambda s, name: {"address": name}, still=True, reloads=False
)
"""For an address that leads nowhere, which is the page's name."""
EVERYWHERE = ("lost", "pulse")
"""Parts of all pages: a banner while the controller does not answer, and the state of the cluster."""


class Pages:
    """Renders pages and their parts. Parts are rendered once for each snapshot, however many pages are open."""

    def __init__(self) -> None:
        self._rendered: dict[tuple[str, str], dict[str, str]] = {}
        self._number = -1

    def parts(self, page: Page, name: str, snapshot: Snapshot) -> Mapping[str, str]:
        """Return the HTML of each part of a page by its id."""
        if snapshot.number != self._number or len(self._rendered) >= PARTS_MAX:
            self._rendered.clear()
            self._number = snapshot.number
        if page.still or page.asks is not None:
            return self._parts(page, name, snapshot)
        key = (page.path, name)
        if key not in self._rendered:
            self._rendered[key] = self._parts(page, name, snapshot)
        return self._rendered[key]

    def _parts(self, page: Page, name: str, snapshot: Snapshot) -> dict[str, str]:
        everywhere = {"snapshot": snapshot, "at": _iso(snapshot.at), "pulse": pulse(snapshot)}
        values = {**everywhere, **page.view(snapshot, name)}
        return {
            part: _templates().get_template(f"{part}.html").render(values)
            for part in (*EVERYWHERE, *page.parts)
        }

    def render(self, template: str, **values: Any) -> str:
        """Return the HTML of a template that is a page of its own."""
        return _templates().get_template(template).render(version=__version__, **values)

    def whole(
        self, page: Page, name: str, snapshot: Snapshot, wall: bool, key: str = "", **answer: Any
    ) -> str:
        """Return a whole page. ``wall``: large, for a screen that nobody sits at. ``key``: the name of the visitor's key.
        ``answer``: variables of the fixed templates, for a page that answers a form."""
        values = {"snapshot": snapshot, **page.view(snapshot, name), **answer} if page.fixed else {}
        return self.render(
            "layout.html",
            title=page.title.replace("{name}", name),
            pages=[(each.path, each.title) for each in PAGES if each.in_menu],
            current=page.path.removesuffix("/{name}"),
            order=page.parts,
            fragments={id: Markup(html) for id, html in self.parts(page, name, snapshot).items()},
            fixed=[Markup(self.render(f"{each}.html", **values)) for each in page.fixed],
            scripts=page.scripts,
            reloads=page.reloads,
            live="" if page.still else f"/live{page.address(name)}",
            wall=wall,
            key=key,
        )


@cache
def _templates() -> jinja2.Environment:
    """Return the templates; each is compiled once in a process."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("reconciler.console"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    made.filters.update(size=_size, rate=rate, watts=watts, loaded=loaded, duration=duration, joined=joined)
    made.globals.update(
        static=address_of,
        acts_of=acts_of,
        standing_of=standing,
        waiting_change=waiting_change,
        logs_of=logs_of,
        owner_of=owner_of,
        look_of=look_of,
        job_prefix=JOB_PREFIX,
        spark=spark,
    )
    return made


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _size(count: float | None) -> str:
    """Return bytes as people write them; empty if they are not known."""
    return "" if count is None else size(count)
