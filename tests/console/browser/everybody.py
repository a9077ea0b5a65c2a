"""What must hold of every page, for everybody: without scripts, in light and dark, on a telephone and on a wide screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize

from reconciler.console.pages import PAGES

WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 360, "height": 740}
OF_THE_LOOK = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]
"""axe-core's rules whose answer depends on colours and sizes; what the others see is the same on every screen."""
SERIOUS = ("serious", "critical")
PAGE_BYTES_MAX = 150_000
TRANSFERRED = """
performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
  .filter(each => !each.name.includes("/live"))
  .reduce((sum, each) => sum + each.encodedBodySize, 0)
"""
"""Bytes of the page and all that belongs to it, whether they come from the network or from an earlier page."""
CUT_OFF = """
[...document.querySelectorAll("main .scroll:not(.history-diff)")].filter(each => each.scrollWidth > each.clientWidth).map(each => each.ariaLabel)
"""
PAINTED = 'performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0'


def addresses(names: Mapping[str, str]) -> Iterator[str]:
    """The address of each page. ``names``: of an object, by the first word of the path."""
    for page in PAGES:
        yield page.address(names.get(page.path.split("/")[1], "nobody") if "{name}" in page.path else "")
    yield "/?wall"


def violations(page: Page) -> list[str]:
    """What axe-core finds serious on the page, light and wide, and dark and narrow; and whether it is wider than the screen."""
    page.evaluate(Axe().axe_script)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)
    found = _serious(page, {"resultTypes": ["violations"]})
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(NARROW)
    return found + _serious(page, {"resultTypes": ["violations"], "runOnly": OF_THE_LOOK})


def _serious(page: Page, options: dict[str, list[str]]) -> list[str]:
    where = f"{page.url} {page.evaluate('innerWidth')}"
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        return [f"{where}: it is wider than the screen"]
    return [
        f"{where}: {each['id']}: {[node['html'] for node in each['nodes'][:3]]}"
        for each in page.evaluate("options => axe.run(options)", options)["violations"]
        if each["impact"] in SERIOUS
    ]


def cut_off(page: Page) -> list[str]:
    """Labels of what is wider than its place on a telephone, so that a part of it is out of sight. Lines of a diff may be."""
    page.set_viewport_size(NARROW)
    labels: list[str] = page.evaluate(CUT_OFF)
    return [f"{page.url}: {label}" for label in labels]
