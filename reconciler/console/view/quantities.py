"""Quantities as people write them."""

from __future__ import annotations

UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def size(count: float) -> str:
    """Return bytes in the unit that fits."""
    size, unit = next(((size, unit) for size, unit in UNITS if count >= size), (1, "bytes"))
    value = count / size
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"


def number(value: float) -> str:
    """Return a number with as many digits as matter."""
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def rate(value: float) -> str:
    """Return tokens a second: small numbers with a decimal, large ones with a space after the thousands."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def watts(value: float) -> str:
    return f"{value:.0f} W" if value < 10_000 else f"{value / 1000:.1f} kW"


def loaded(done: float, total: float) -> str:
    """Return the loaded part of weights, in decimal units, as sizes of weights are given: ``412 of 700 GB``."""
    size, unit = (10**9, "GB") if total >= 10**9 else (10**6, "MB")
    texts = [
        f"{value / size:.0f}" if value >= 100 * size else f"{value / size:.1f}" for value in (done, total)
    ]
    return f"{texts[0]} of {texts[1]} {unit}" if done < total else f"{texts[1]} {unit}"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2f} s" if 0 < seconds < 0.1 else f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
