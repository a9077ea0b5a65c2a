"""Draws machines and their cables: two rows of cards whose receptacles face each other, and a curve for each cable.

Plain geometry in the units of the picture, y downwards. Cables leave a receptacle at a right angle to its card, so that
each can be followed, and no label covers a card or another label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

CARD_WIDTH, CARD_HEIGHT = 200, 78
COLUMN_GAP, MARGIN = 44, 14
SOCKET_WIDTH, SOCKET_HEIGHT = 23, 16
CHANNEL, CHANNEL_PER_COLUMN = 120, 46
"""Height of the space between both rows."""
LABEL_HEIGHT, LETTER_WIDTH = 19, 6.9
PLACES = (0.5, 0.42, 0.58, 0.35, 0.65, 0.28, 0.72, 0.22, 0.78, 0.16, 0.84)
"""Places of a label along its cable, the best first."""
Point = complex
"""``x`` is the real part, ``y`` the imaginary one."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        """Return whether the two overlap."""
        beside = self.x >= other.x + other.width or other.x >= self.x + self.width
        return not (beside or self.y >= other.y + other.height or other.y >= self.y + self.height)


@dataclass(frozen=True, slots=True)
class Curve:
    """A cable from receptacle to receptacle: a cubic Bézier curve."""

    start: Point
    lead: Point
    trail: Point
    end: Point

    @property
    def path(self) -> str:
        """Return it as the ``d`` of an SVG path."""
        points = (self.start, self.lead, self.trail, self.end)
        start, *others = (f"{point.real:g} {point.imag:g}" for point in points)
        return f"M{start}C{' '.join(others)}"

    def at(self, part: float) -> Point:
        """Return the point after a part of the curve, from 0 to 1."""
        rest = 1 - part
        weights = (rest**3, 3 * rest**2 * part, 3 * rest * part**2, part**3)
        points = (self.start, self.lead, self.trail, self.end)
        return sum((weight * point for weight, point in zip(weights, points, strict=True)), 0j)


@dataclass(frozen=True, slots=True)
class Layout:
    width: float
    height: float
    columns: int
    cards: Mapping[str, Box]
    sockets: Mapping[str, Point]
    """The middle of each receptacle, by ``machine/number``."""
    curves: tuple[Curve | None, ...]
    """One for each cable; None if an end is not a known receptacle."""
    labels: tuple[Box | None, ...]
    """One for each cable; None if it has no label, or there is no room."""


def layout(
    receptacles: Mapping[str, Sequence[int]], cables: Sequence[tuple[str, str]], labels: Sequence[str]
) -> Layout:
    """Place machines in their order: the first half above from left to right, the others below from right to left. So each
    machine is next to the one that follows it, and the last next to the first.

    ``receptacles``: their numbers by machine. ``cables``: both ends as ``machine/number``. ``labels``: a text for each
    cable; if there is little room, the first ones get it.
    """
    names = list(receptacles)
    columns = max(min(2, len(names)), (len(names) + 1) // 2)
    channel = CHANNEL + CHANNEL_PER_COLUMN * columns
    cards = {name: _card(index, len(names), columns, channel) for index, name in enumerate(names)}
    sockets = {
        f"{name}/{number}": socket
        for name, numbers in receptacles.items()
        for number, socket in _sockets(cards[name], numbers)
    }
    curves = tuple(_curve(sockets.get(start), sockets.get(end), channel) for start, end in cables)
    below = channel + CARD_HEIGHT if len(names) > columns else channel / 2
    return Layout(
        width=2 * MARGIN + columns * CARD_WIDTH + (columns - 1) * COLUMN_GAP,
        height=2 * MARGIN + CARD_HEIGHT + below,
        columns=columns,
        cards=cards,
        sockets=sockets,
        curves=curves,
        labels=tuple(_labels(curves, labels, cards)),
    )


def _card(index: int, count: int, columns: int, channel: float) -> Box:
    below = index >= columns
    column = count - 1 - index if below else index
    offset = (CARD_WIDTH + COLUMN_GAP) / 2 if below and count % 2 else 0
    x = MARGIN + column * (CARD_WIDTH + COLUMN_GAP) + offset
    return Box(x, MARGIN + below * (CARD_HEIGHT + channel), CARD_WIDTH, CARD_HEIGHT)


def _sockets(card: Box, numbers: Sequence[int]) -> Iterator[tuple[int, Point]]:
    """Return the receptacles on the edge that faces the other row."""
    y = card.y + CARD_HEIGHT if card.y == MARGIN else card.y
    step = min(30.0, (CARD_WIDTH - 20) / max(1, len(numbers)))
    first = card.x + CARD_WIDTH / 2 - step * (len(numbers) - 1) / 2
    for index, number in enumerate(numbers):
        yield number, Point(round(first + index * step, 1), y)


def _curve(start: Point | None, end: Point | None, channel: float) -> Curve | None:
    """Return a cable: a loop between machines of one row, or a curve to the other row."""
    if start is None or end is None:
        return None
    away = 1j if start.imag < end.imag or start.imag == end.imag == MARGIN + CARD_HEIGHT else -1j
    if start.imag == end.imag:
        depth = away * min(channel * 0.62, 46 + 0.2 * abs(start - end))
        return Curve(start, start + depth, end + depth, end)
    reach = away * channel * 0.55
    return Curve(start, start + reach, end - reach, end)


def _labels(
    curves: Sequence[Curve | None], texts: Sequence[str], cards: Mapping[str, Box]
) -> Iterator[Box | None]:
    taken = [
        Box(card.x, card.y - SOCKET_HEIGHT / 2 - 2, card.width, card.height + SOCKET_HEIGHT + 4)
        for card in cards.values()
    ]
    for curve, text in zip(curves, texts, strict=True):
        box = _label(curve, text, taken) if curve is not None and text else None
        if box is not None:
            taken.append(box)
        yield box


def _label(curve: Curve, text: str, taken: Sequence[Box]) -> Box | None:
    width = round(LETTER_WIDTH * len(text) + 14)
    for place in PLACES:
        middle = curve.at(place)
        x, y = round(middle.real - width / 2, 1), round(middle.imag - LABEL_HEIGHT / 2, 1)
        box = Box(x, y, width, LABEL_HEIGHT)
        if not any(box.meets(other) for other in taken):
            return box
    return None
