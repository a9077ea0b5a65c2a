"""What must hold of every page, for everybody: without scripts, in light and dark, on a telephone and on a wide screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize

from reconciler.console.pages import PAGES

SCREENS: tuple[tuple[str, ViewportSize], ...] = (
    ("light", {"width": 1280, "height": 800}),
    ("dark", {"width": 360, "height": 740}),
)
SERIOUS = ("serious", "critical")
PAGE_BYTES_MAX = 150_000
TRANSFERRED = """
performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
  .filter(each => !each.name.includes("/live"))
  .reduce((sum, each) => sum + each.encodedBodySize, 0)
"""
"""Bytes of the page and all that belongs to it, whether they come from the network or from an earlier page."""
AXE = "axe.run({resultTypes: ['violations']})"
PAINTED = 'performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0'


def addresses(names: Mapping[str, str]) -> Iterator[str]:
    """The address of each page. ``names``: of an object, by the first word of the path."""
    for page in PAGES:
        yield page.address(names.get(page.path.split("/")[1], "nobody") if "{name}" in page.path else "")
    yield "/?wall"


def violations(page: Page) -> list[str]:
    """What axe-core finds serious on the page as it is, on each of the screens; and what is wider than the screen."""
    found: list[str] = []
    page.evaluate(Axe().axe_script)
    for scheme, size in SCREENS:
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.set_viewport_size(size)
        where = f"{page.url} {scheme} {size['width']}"
        serious = (each for each in page.evaluate(AXE)["violations"] if each["impact"] in SERIOUS)
        found += [
            f"{where}: {each['id']}: {[node['html'] for node in each['nodes'][:3]]}" for each in serious
        ]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{where}: it is wider than the screen")
    return found
