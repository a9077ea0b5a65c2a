"""Watches a cluster during its rehearsal: the ready replicas, the events, and the results of a client's requests."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from reconciler.errors import Refused, Unreachable
from reconciler.wire.admin import Get, ListEvents
from reconciler.wire.answers import A, Asks, EventEntry
from reconciler.wire.objects import ModelDeployment

LOOK_SECONDS = 0.2
PAUSE_SECONDS = 0.4
"""Time between two requests of one client: the machine also has other work."""
REQUEST_SECONDS_MAX = 120.0
TOKENS_MAX = 12
QUESTION = "What is an epoch?"


class Ask(Protocol):
    def __call__(self, message: Asks[A], /) -> A:
        """Return the body of its answer."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The deployments at one moment of ``time.monotonic``."""

    at: float
    ready: dict[str, int]
    """Ready replicas by name."""
    epochs: dict[str, int]
    """The newest epoch of each deployment's groups, added up over its replicas."""


@dataclass(slots=True)
class Request:
    """One request. Times are of ``time.monotonic``."""

    model: str
    begun_at: float
    ended_at: float | None = None
    error: str = ""

    @property
    def answered(self) -> bool:
        return self.ended_at is not None and not self.error


@dataclass
class Watcher:
    """Watches the deployments, and sends requests to each of them, in threads of its own."""

    ask: Ask
    samples: list[Sample] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    items: list[ModelDeployment] = field(default_factory=list)
    """The newest deployments, as ``Get`` answers."""
    over: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    last_event: int = 0

    def start(self) -> None:
        self._spawn(self._look)

    def load(self, endpoint: str, models: Iterable[str]) -> None:
        """Begin to send requests to each model: one client, one request at a time."""
        for model in models:
            self._spawn(lambda model=model: self._ask_on(endpoint, model))  # type: ignore[misc]

    def end(self) -> None:
        """Begin no further request, and wait for those that have begun."""
        self.over.set()
        for thread in self.threads:
            thread.join(REQUEST_SECONDS_MAX)

    def answered(self, models: Iterable[str], since: float) -> bool:
        """Return whether each model has answered a request that began after ``since``."""
        found = {each.model for each in self.requests if each.begun_at >= since and each.answered}
        return found.issuperset(models)

    def news(self) -> list[EventEntry]:
        """Return the events since the last call, oldest first."""
        body = self.ask(ListEvents(self.last_event))
        self.last_event = body["last"]
        return body["items"]

    def unserved(self, name: str, since: float) -> float:
        """Return for how many seconds no replica of a deployment was ready, from a moment on."""
        later = [sample for sample in self.samples if sample.at >= since]
        return sum(after.at - sample.at for sample, after in pairwise(later) if not sample.ready.get(name))

    def _spawn(self, work: Callable[[], None]) -> None:
        # A daemon: a request that nobody answers keeps no rehearsal from its end.
        thread = threading.Thread(target=work, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _look(self) -> None:
        while not self.over.wait(LOOK_SECONDS):
            try:
                self.items = self.ask(Get("ModelDeployment"))["items"]
            except (Refused, Unreachable):
                continue
            ready = {each["metadata"]["name"]: each["status"].get("readyReplicas", 0) for each in self.items}
            epochs = {
                each["metadata"]["name"]: sum(group["epoch"] for group in each["status"].get("groups", ()))
                for each in self.items
            }
            self.samples.append(Sample(time.monotonic(), ready, epochs))

    def _ask_on(self, endpoint: str, model: str) -> None:
        while not self.over.wait(PAUSE_SECONDS):
            if not any(each["metadata"]["name"] == model and each["spec"]["replicas"] for each in self.items):
                continue  # nobody should ask a model that is no longer wanted
            request = Request(model, time.monotonic())
            self.requests.append(request)
            request.error = _error(endpoint, model)
            request.ended_at = time.monotonic()


def _error(endpoint: str, model: str) -> str:
    """Ask for a completion; return the reason why there is none, empty if there is one."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": TOKENS_MAX,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"{endpoint}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS_MAX) as answer:
            return "" if json.load(answer)["choices"] else "an answer without choices"
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP {error.code}"
    except (OSError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
