"""Messages from the gateway before, while it finishes its answers."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable

from reconciler.gateway.errors import ApiError
from reconciler.gateway.figures import Figure, Figures
from reconciler.gateway.keys.caller import Caller
from reconciler.gateway.keys.desk import Desk, Ticket
from reconciler.gateway.keys.ledger import Account, Grant, MemoryLedger, Refusal
from reconciler.gateway.keys.usage import Usage
from reconciler.wire.codec import WireError
from reconciler.wire.figures import ModelFigures
from reconciler.wire.handover import (
    Begin,
    CountedKey,
    Denied,
    End,
    Ended,
    Granted,
    Left,
    OpenRequest,
    Quarantined,
    Running,
    Seen,
)
from reconciler.wire.keys import AccessKey
from reconciler.wire.prompts import QuarantinedPrompt

from .messages import Waiting

log = logging.getLogger(__name__)


class _Told:
    """A request of the other gateway, with its last reported use."""

    def __init__(self, usage: Usage = Usage()) -> None:  # noqa: B008 - it is frozen
        self.told = usage

    def usage(self, answers: int) -> Usage:
        """Return its tokens so far."""
        return self.told

    def end(self, error: ApiError) -> None:
        """Leave it to the gateway that answers it: it knows the keys too."""


class Predecessor:
    """The other gateway's requests, counted here. If it is killed, its last reports count."""

    def __init__(self, desk: Desk) -> None:
        self.quarantined: Callable[[tuple[QuarantinedPrompt, ...]], object] = lambda prompts: None
        """Called with the prompts that the other gateway refuses."""
        self.models: tuple[ModelFigures, ...] = ()
        """The figures of its requests since this gateway took over."""
        self.gone = asyncio.Event()
        """Set when it has ended."""
        self._desk = desk
        self._open: dict[int, tuple[Ticket, _Told]] = {}
        self._said: asyncio.Queue[object] = asyncio.Queue()
        """Messages to it: at most one answer to each request that waits there, and the end."""

    # --- its counts before -------------------------------------------------------------------------

    def restore(self, keys: list[CountedKey], requests: list[OpenRequest], now: float) -> None:
        """Continue from its counts until ``now``, by its clock."""
        ahead = self._desk.now().monotonic - now
        later = 0 if abs(ahead) < 1.0 else math.ceil(ahead)  # mostly the two have one clock
        ledger = self._desk.ledger
        assert isinstance(ledger, MemoryLedger)
        self._desk.book.restore([key.used for key in keys])
        for key in keys:
            account = Account()
            account.day, account.used_today = key.day, key.used_today
            account.requests.go_on(key.requests, later)
            account.tokens.go_on(key.tokens, later)
            ledger.go_on(key.used.name, account)
        for each in requests:
            told = _Told(Usage(each.prompt, each.completion))
            grant = Grant(each.tokens, each.second + later, Figures())
            self._open[each.number] = self._desk.adopt(_caller(each.name), grant, told), told

    # --- its work now ------------------------------------------------------------------------------

    async def run(self, connection: Waiting) -> None:
        """Listen to it until it is gone, then settle its open requests. Closes the connection."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._speak(connection))
                while True:
                    await self._hear(await connection.receive())
        except* OSError:  # it has ended
            pass
        except* WireError as errors:
            log.warning("the gateway before counts alone from now on: %s", errors.exceptions[0])
        finally:
            connection.sock.close()
            for number in tuple(self._open):
                self._settle(number, never_began=False)
            self.models = tuple(_at_rest(each) for each in self.models)
            self.gone.set()

    def end(self) -> None:
        """Make it stop, because this gateway is being stopped."""
        self._said.put_nowait(End())

    async def _speak(self, connection: Waiting) -> None:
        while True:
            await connection.send(await self._said.get())

    async def _hear(self, said: object) -> None:
        match said:
            case Begin():
                await self._begin(said)
            case Ended() if said.number in self._open:
                self._open[said.number][1].told = Usage(said.prompt, said.completion)
                self._settle(said.number, said.never_began)
            case Ended():  # it never asked to let this request in, or was refused
                pass
            case Seen():
                self._desk.seen(_caller(said.name))
            case Running():
                self.models = said.models
                for each in said.requests:
                    if each.number in self._open:
                        self._open[each.number][1].told = Usage(each.prompt, each.completion)
            case Quarantined():
                self.quarantined(said.prompts)
            case _:
                raise WireError(f"unexpected {type(said).__name__}")

    async def _begin(self, said: Begin) -> None:
        told = _Told()
        opened = await self._desk.open(_caller(said.name), said.name, said.limits, said.tokens, told)
        figures = opened.figures
        left = _left(figures.requests), _left(figures.tokens)
        if isinstance(opened, Refusal):
            retry = opened.retry_seconds if math.isfinite(opened.retry_seconds) else None
            answer: object = Denied(said.number, figures.now, opened.limit.value, opened.limits, retry, *left)
        else:
            self._open[said.number] = opened, told
            answer = Granted(said.number, figures.now, *left)
        self._said.put_nowait(answer)

    def _settle(self, number: int, never_began: bool) -> None:
        ticket, told = self._open.pop(number)
        assert ticket.grant is not None
        self._desk.close(ticket, ticket.grant, told.told, never_began)


def _caller(name: str) -> Caller:
    return Caller(f"key {name}", AccessKey(name, ()))


def _left(figure: Figure | None) -> Left | None:
    return None if figure is None else Left(figure.limit, figure.remaining, figure.reset_seconds)


def _at_rest(model: ModelFigures) -> ModelFigures:
    return ModelFigures(model.model, 0, 0, model.errors, model.first_token, model.tokens)
