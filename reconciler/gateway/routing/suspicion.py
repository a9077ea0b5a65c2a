"""One request's part in the search for the prompt that ended a group: its reports to ``Suspects``, and its waits."""

from __future__ import annotations

from typing import Protocol

from reconciler.gateway.errors import prompt_quarantined
from reconciler.gateway.events import Event
from reconciler.wire.generation import Accepted, Backend, Delta, Generate

from . import prompts
from .suspects import Suspects


class Court(Protocol):
    """The parts of the pool that a request needs."""

    def suspects(self, model: str) -> Suspects:
        """Return the suspects of a model."""

    def crowded(self, model: str, beside: Suspicion) -> bool:
        """Return whether a group of the model has another request without a new token."""

    def wake_held(self) -> None:
        """Make all held requests look again."""

    def wall(self) -> float:
        """Return the time in seconds since the Unix epoch."""


class Suspicion:
    """Follows one request. ``run`` is its unique name, ``request`` the id that the client knows."""

    def __init__(self, court: Court, generate: Generate, run: str, request: str) -> None:
        self._court = court
        self._generate = generate
        self._run = run
        self._request = request
        self._model = ""
        self._attempt = ""
        """The id of the attempt; empty while there is none."""
        self._tokens = 0
        """New tokens of the attempt."""
        self._prompt_tokens = 0
        self._cleared = False
        """True once the progress of the attempt has cleared the prompt."""
        self._waits_since: float | None = None
        self._digest = ""

    @property
    def digest(self) -> str:
        """The digest of the prompt, computed at the first use, because a long prompt takes a while."""
        if not self._digest:
            self._digest = prompts.digest(self._model, self._generate)
        return self._digest

    def likely(self, model: str) -> bool:
        """Return whether a group of the model has it, without progress that would clear it."""
        return bool(self._attempt) and self._model == model and not self._progressing()

    def wait(self, model: str, available: bool, now: float) -> float | None:
        """Return the time to ask again while suspects are on trial; None if it may be sent now, provided that a group
        is ``available``.

        Raises ``ApiError`` for a prompt that is quarantined.
        """
        self._model = model
        suspects = self._court.suspects(model)
        if suspects.idle:
            return None
        self._refuse_quarantined(suspects)
        if not available:
            self._waits_since = None
            return None
        self._waits_since = now if self._waits_since is None else self._waits_since
        crowded = suspects.suspected(self.digest) and self._court.crowded(model, self)
        return suspects.turn(self._run, self.digest, now - self._waits_since, crowded, now)

    def _refuse_quarantined(self, suspects: Suspects) -> None:
        wall = self._court.wall()
        entry = suspects.refused(self.digest, wall)
        if entry is not None:
            seconds = max(1, round(entry.until - wall))
            raise prompt_quarantined(self._model, len(entry.ended), entry.request, seconds)

    def sent(self, attempt: str, now: float) -> None:
        self._attempt, self._tokens, self._cleared, self._waits_since = attempt, 0, False, None
        suspects = self._court.suspects(self._model)
        if not suspects.idle:
            suspects.begun(self._run, attempt, self.digest, now)

    def on_tokens(self, tokens: int) -> None:
        self._tokens += tokens
        if not self._cleared and self._progressing():
            self._clear()

    def on_event(self, event: Event) -> None:
        if isinstance(event, Delta):
            self.on_tokens(len(event.tokens))
        elif isinstance(event, Accepted):
            self._prompt_tokens = len(event.prompt_tokens)

    def _progressing(self) -> bool:
        suspects = self._court.suspects(self._model)
        return self._tokens > 0 if suspects.idle else suspects.progressing(self.digest, self._tokens)

    def _clear(self) -> None:
        self._cleared = True
        suspects = self._court.suspects(self._model)
        if not suspects.idle:
            suspects.clear(self.digest)
            self._court.wake_held()

    def died(self, backend: Backend, now: float) -> None:
        """Note that the group has died while it worked on the request."""
        if self._attempt:
            prompt = prompts.describe(self._model, self._generate, self._request, self._prompt_tokens)
            group = (backend.replica, backend.epoch)
            self._court.suspects(self._model).died(group, self._run, prompt, self._progressing(), now)

    def ended(self, answered: bool) -> None:
        """Note that the attempt is over, however it ended."""
        attempt, self._attempt = self._attempt, ""
        suspects = self._court.suspects(self._model)
        if not attempt:
            return
        suspects.ended(attempt)
        if not suspects.idle:
            if answered:
                suspects.answered(self.digest)
            self._court.wake_held()

    def left(self) -> None:
        if not self._model:
            return
        suspects = self._court.suspects(self._model)
        suspects.left(self._run)
        if not suspects.idle:
            self._court.wake_held()
