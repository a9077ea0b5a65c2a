"""Quantities as people write them."""

from __future__ import annotations

UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def size(count: float) -> str:
    """Return bytes with three digits at most before the point, in the unit that fits."""
    size, unit = next(((size, unit) for size, unit in UNITS if count >= size), (1, "bytes"))
    value = count / size
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"


def number(value: float) -> str:
    """Return a number with as many digits as matter."""
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def seconds(value: float) -> str:
    """Return a short time."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
