"""The requests that may have ended a group: suspicion, trials apart, quarantine. Pure: no clock, no socket, no log.

A prompt that a group was working on when it died is suspected. Of several, those without a new token since they were
sent are likelier. Suspects continue one at a time, and no other request begins meanwhile, so that a second death
identifies the prompt. That prompt is quarantined, and all others continue. A suspect that gets new tokens is cleared.
It needs more tokens after each further death. One that was answered to its end begins again with none, and is refused only
after one more death: a group that served it has ended for another reason.

The controller's reason for the end of a group decides how much the end counts (``state.Suspicion``). A cable or a
machine that explains it clears all prompts that were there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from reconciler.wire.clock import seconds_left
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt

STRONG = 2
"""Points of an end that the controller does not explain: ``state.Suspicion.STRONG``."""
GUILTY_ALONE = 2 * STRONG
"""Points that quarantine a prompt that was the only likely one at the last death."""
GUILTY = 4 * STRONG
"""Points that quarantine a prompt although others were as likely."""
TURN_SECONDS = 60.0
"""The longest time that a request waits for the trials of others."""
SUSPECTED_SECONDS = 600.0
"""A suspicion without new evidence for so long is dropped."""
QUARANTINED_SECONDS = 3600.0
"""The time that a prompt is refused. After it, the model, the runtime or the machines may have changed."""
QUARANTINED_MAX = 256
SUSPECTS_MAX = 1024
"""The most prompts that are remembered; the oldest are dropped."""
CLEARING_FACTOR = 16
"""The factor by which each further death raises the number of new tokens that clear a suspect."""

Group = tuple[int, int]
"""A replica's index and its epoch."""


K = TypeVar("K")
V = TypeVar("V")


class Prompt(NamedTuple):
    """A prompt as other processes see it, without its content."""

    digest: str
    """SHA-256 of the model's name and all input of the template, in hexadecimal."""
    request: str
    """The id of its request, as the client knows it."""
    shape: str
    """Its size, for people."""


@dataclass(slots=True)
class _Suspect:
    points: int = 0
    deaths: int = 0
    groups: tuple[Group, ...] = ()
    cleared: bool = False
    answered: bool = False
    """True if it was answered to its end since it was first suspected."""
    likely: bool = False
    """True if it was once among the likely ones, and not only somewhere in its answer."""
    since: float = 0.0
    """The time of the last evidence."""

    @property
    def clearing_tokens(self) -> int:
        """The number of new tokens that clear it."""
        return int(CLEARING_FACTOR ** max(0, self.deaths - 1))

    @property
    def guilty_alone(self) -> int:
        """The points that quarantine it if it was the only likely one at the last death."""
        return GUILTY_ALONE + (STRONG if self.answered else 0)


@dataclass(slots=True)
class _Death:
    """The end of a group that the controller has not explained yet."""

    at: float
    present: dict[str, tuple[Prompt, bool]] = field(default_factory=dict)
    """The prompts by digest, each with whether it was making progress."""

    @property
    def likely(self) -> set[str]:
        """The prompts without progress, or all if every one had some."""
        stuck = {digest for digest, (_, progressing) in self.present.items() if not progressing}
        return stuck or set(self.present)


@dataclass(frozen=True, slots=True)
class _Trial:
    digest: str
    attempt: str
    until: float


class Suspects:
    """The suspected and the quarantined prompts of one model.

    ``now`` is in seconds of a monotonic clock, ``wall`` in seconds since the Unix epoch.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._quarantined: dict[str, QuarantinedPrompt] = {}
        self._suspects: dict[str, _Suspect] = {}
        self._deaths: dict[Group, _Death] = {}
        self._trial: _Trial | None = None
        self._waiting: dict[str, str] = {}
        """Runs that wait after a death, or for their trial, with the digests of their prompts."""

    @property
    def idle(self) -> bool:
        """True if no prompt is suspected or refused: no digest needs to be computed then."""
        return not (self._quarantined or self._suspects or self._deaths)

    def quarantined(self, wall: float) -> tuple[QuarantinedPrompt, ...]:
        """Return the refused prompts, oldest first; expired ones are forgotten."""
        self._quarantined = {d: prompt for d, prompt in self._quarantined.items() if _holds(prompt, wall)}
        return tuple(self._quarantined.values())

    def refused(self, digest: str, wall: float) -> QuarantinedPrompt | None:
        """Return why a prompt is refused; None if it is not."""
        prompt = self._quarantined.get(digest)
        return prompt if prompt is not None and _holds(prompt, wall) else None

    # --- turns -------------------------------------------------------------------------------------

    def turn(self, run: str, digest: str, waited: float, crowded: bool, now: float) -> float | None:
        """Return the time when a request should ask again before it is sent; None if it may be sent now.

        ``waited``: the seconds since it first asked. ``crowded``: whether a group already has another request without a
        new token, so that its death would identify neither.
        """
        self._forget(now)
        if waited >= TURN_SECONDS:
            return None
        suspected = self.suspected(digest)
        if self._trial is not None:
            hold = True
        elif suspected:
            hold = crowded or self._awaits_verdict(digest)
        else:
            hold = any(run != other and self.suspected(its) for other, its in self._waiting.items())
        if not hold:
            return None
        self._waiting[run] = digest
        return now + TURN_SECONDS - waited

    def begun(self, run: str, attempt: str, digest: str, now: float) -> None:
        """Note that a request was sent. A suspect's request is a trial, unless another trial is running."""
        self._waiting.pop(run, None)
        if self._trial is None and self.suspected(digest):
            self._trial = _Trial(digest, attempt, now + TURN_SECONDS)

    def progressing(self, digest: str, tokens: int) -> bool:
        """Return whether so many new tokens make an attempt an unlikely cause of a death."""
        suspect = self._suspects.get(digest)
        return tokens >= (suspect.clearing_tokens if suspect else 1)

    def clear(self, digest: str) -> None:
        """Note that a prompt is making progress."""
        suspect = self._suspects.get(digest)
        if suspect is not None:
            suspect.cleared, suspect.points = True, 0
        self._end_trial(digest)

    def answered(self, digest: str) -> None:
        """Note that a prompt was answered to its end."""
        self.clear(digest)
        suspect = self._suspects.get(digest)
        if suspect is not None:
            suspect.deaths, suspect.groups, suspect.answered = 0, (), True

    def _end_trial(self, digest: str) -> None:
        if self._trial is not None and self._trial.digest == digest:
            self._trial = None

    def ended(self, attempt: str) -> None:
        if self._trial is not None and self._trial.attempt == attempt:
            self._trial = None

    def left(self, run: str) -> None:
        self._waiting.pop(run, None)

    # --- deaths ------------------------------------------------------------------------------------

    def died(self, group: Group, run: str, prompt: Prompt, progressing: bool, now: float) -> None:
        """Note that a group died while it worked on this prompt. It is called for each run of the group."""
        death = self._deaths.setdefault(group, _Death(now))
        before = death.present.get(prompt.digest)
        death.present[prompt.digest] = (prompt, progressing and (before is None or before[1]))
        self._end_trial(prompt.digest)
        self._waiting[run] = prompt.digest

    def judge(self, points: Callable[[Group], int | None], now: float, wall: float) -> bool:
        """Settle the deaths with a known cause. Returns whether there were any.

        ``points`` returns the points by which the end of a group incriminates a request; None if they are not known
        yet.
        """
        known = [(group, found) for group in self._deaths if (found := points(group)) is not None]
        for group, found in known:
            death = self._deaths.pop(group)
            if found:
                self._charge(group, death, found, now, wall)
        return bool(known)

    def _charge(self, group: Group, death: _Death, points: int, now: float, wall: float) -> None:
        likely = death.likely
        stuck = any(not progressing for _, progressing in death.present.values())
        for digest in likely:
            suspect = self._suspects.setdefault(digest, _Suspect())
            suspect.points += points
            suspect.deaths += 1
            suspect.groups = (*suspect.groups, group)
            suspect.cleared, suspect.since = False, now
            suspect.likely = suspect.likely or stuck
        for digest in sorted(likely):
            suspect = self._suspects[digest]
            if suspect.points >= (suspect.guilty_alone if len(likely) == 1 else GUILTY):
                self._convict(death.present[digest][0], wall)
        for digest in list(self._suspects)[: max(0, len(self._suspects) - SUSPECTS_MAX)]:
            del self._suspects[digest]

    def quarantine(self, prompt: QuarantinedPrompt) -> None:
        """Refuse a prompt from now on. If there are too many, the oldest is allowed again."""
        self._quarantined.pop(prompt.digest, None)
        self._quarantined[prompt.digest] = prompt
        while len(self._quarantined) > QUARANTINED_MAX:
            del self._quarantined[next(iter(self._quarantined))]

    def _convict(self, prompt: Prompt, wall: float) -> None:
        """Refuse a prompt. Prompts that were only somewhere in their answers when it ended their groups are cleared."""
        guilty = self._suspects.pop(prompt.digest)
        ended = tuple(EndedGroup(replica, epoch) for replica, epoch in guilty.groups)
        until = wall + QUARANTINED_SECONDS
        self.quarantine(
            QuarantinedPrompt(self.model, prompt.digest, prompt.request, prompt.shape, ended, wall, until)
        )
        explained = set(guilty.groups)
        self._suspects = {
            digest: suspect
            for digest, suspect in self._suspects.items()
            if suspect.likely or not explained.issuperset(suspect.groups)
        }

    # --- questions ---------------------------------------------------------------------------------

    def suspected(self, digest: str) -> bool:
        """Return whether a prompt is suspected, and not cleared yet."""
        suspect = self._suspects.get(digest)
        if suspect is not None and not suspect.cleared and suspect.points >= STRONG:
            return True
        return any(digest in death.likely for death in self._deaths.values())

    def _awaits_verdict(self, digest: str) -> bool:
        """Return whether a prompt is quarantined unless the controller explains a death otherwise."""
        pending = sum(digest in death.likely for death in self._deaths.values())
        suspect = self._suspects.get(digest)
        points, limit = (suspect.points, suspect.guilty_alone) if suspect is not None else (0, GUILTY_ALONE)
        return pending > 0 and points + pending * STRONG >= limit

    def _forget(self, now: float) -> None:
        """Drop old entries, so that no request waits for ever."""
        if self._trial is not None and now >= self._trial.until:
            self._trial = None
        self._deaths = _recent(self._deaths, now, lambda death: death.at)
        self._suspects = _recent(self._suspects, now, lambda suspect: suspect.since)


def _holds(prompt: QuarantinedPrompt, wall: float) -> bool:
    """Return whether a prompt is still refused."""
    return seconds_left(prompt.until, wall, QUARANTINED_SECONDS) > 0


def _recent(items: Mapping[K, V], now: float, at: Callable[[V], float]) -> dict[K, V]:
    return {key: value for key, value in items.items() if now - at(value) < SUSPECTED_SECONDS}
