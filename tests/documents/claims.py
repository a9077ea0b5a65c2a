"""What a document claims that the product can be asked about: commands, options, targets, pages, figures, and what there is
not. Each function returns the claims of a text that are false, for people."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from reconciler.cli.core.app import LISTED, reconciler
from reconciler.console.pages import PAGES
from reconciler.gateway.dialects.table import DIALECTS
from reconciler.resources import KIND_NAMES
from reconciler.state.faults import FaultClass
from tests.chaos.faults import KINDS
from tests.simulation.schedules.scenarios import SCENARIOS

from .newcomer import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
FIGURES = "What nobody else has"
"""The section of the README whose table has a figure in each row."""


# --- what there is ---------------------------------------------------------------------------------


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a text, in blocks and in backticks, as they are typed."""
    joined = text.replace("\\\n", " ")
    lines = [
        line for block in re.findall(r"```\w*\n(.*?)```", joined, re.DOTALL) for line in block.splitlines()
    ]
    for piece in [*lines, *re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", joined, flags=re.DOTALL))]:
        for found in re.finditer(r"(?:^|\$\(|&& |\$ )(reconciler [^|)#;&─]*)(?!.*─)", piece.strip()):
            yield found[1].strip()


def false_commands(text: str) -> list[str]:
    return [command for command in commands(text) if not _is_command(command)]


def _is_command(line: str) -> bool:
    """Return whether each word of a line is a command or an option of the product, as far as it is one."""
    try:
        words = shlex.split(line.rstrip("'\""))[1:]
    except ValueError:
        words = line.split()[1:]
    command: click.Command = reconciler
    context = click.Context(reconciler)
    while True:
        options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {
            "--help"
        }
        inner: click.Command | None = None
        for number, word in enumerate(words):
            if word.startswith("-") and word != "-" and not re.fullmatch(r"-\d+", word):
                if word.partition("=")[0] not in options and word[:2] not in options:
                    return False
            elif isinstance(command, click.Group):
                inner, words = command.get_command(context, word), words[number + 1 :]
                if inner is None:
                    return word.isupper() or word.startswith("<")
                break
        if inner is None:
            return True
        command = inner


def false_targets(text: str) -> list[str]:
    blocks = "\n".join(re.findall(r"```\w*\n(.*?)```", text, re.DOTALL))
    named = re.findall(r"^make ([a-z-]+)", blocks, re.MULTILINE) + re.findall(r"`make ([a-z-]+)", text)
    return [each for each in named if each not in TARGETS]


def false_links(text: str, base: Path = ROOT) -> list[str]:
    """Return links to files and headings that there are not."""
    return [
        target
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
        if "://" not in target and not _leads(base, target)
    ]


def _leads(base: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = base / name if name else base / "README.md"
    return path.exists() and (not anchor or anchor in _anchors(path))


@cache
def _anchors(path: Path) -> frozenset[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles)


# --- figures ---------------------------------------------------------------------------------------


def numbers(text: str) -> list[str]:
    return re.findall(r"\d[\d,.]*\d|\d", text)


def rows(text: str) -> dict[str, str]:
    """Return the figures of the table by the command that prints them."""
    table = text.partition(f"## {FIGURES}\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if "`make " in line
    ]
    return {row[-1].strip("`"): row[1] for row in cells}


def false_figures(text: str) -> list[str]:
    """Return the rows with a number that neither the code nor the page of figures has."""
    found = rows(text)
    lacking = [command for command in measured() if command not in found]
    return lacking + [
        f"{command}: {figure}"
        for command, figure in found.items()
        if sorted(numbers(figure)) != sorted(numbers(measured().get(command, "")) or ["none"])
    ]


@cache
def measured() -> dict[str, str]:
    """Return the figures by command: those that the code has, and those of runs, from docs/testing.md and docs/benchmarks.md."""
    (fuzz,) = re.findall(r"\$\(or \$\(FUZZ\),(\d+)\)", MAKEFILE)
    by_default = len(_by_default())
    page = (ROOT / "docs" / "testing.md").read_text().partition("## Figures of the README\n")[2]
    runs = re.findall(r"^\| `(make [^`]+)` \| ([^|]+) \| \d{4}-\d\d-\d\d \|$", page, re.MULTILINE)
    (recovery,) = re.findall(
        r"^\| rank killed → next token: s \|.*$", (ROOT / "docs" / "benchmarks.md").read_text(), re.MULTILINE
    )
    return {
        **dict(runs),
        "make classes": str(len(FaultClass)),
        "make fuzz": f"{int(fuzz):,}",
        "make faults": str(by_default),
        "make bench ONLY=recovery": recovery.split("|")[4].strip(),
    }


def _by_default() -> frozenset[str]:
    from tests.simulation.__main__ import BY_DEFAULT

    return frozenset(BY_DEFAULT)


def false_kinds_of_chaos(text: str) -> list[str]:
    found = re.findall(r"(\d+) kinds", rows(text).get("make chaos MINUTES=20", ""))
    return [] if found == [str(len(KINDS))] else [f"{found} kinds of faults"]


def false_python(text: str) -> list[str]:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].lstrip(">=")
    return [each for each in re.findall(r"Python (3\.\d+)", text) if each != wanted]


# --- what there is not -----------------------------------------------------------------------------

_DENIALS = (
    r"[Tt]here (?:is|are) (?:still |as yet )?no\b(?P<a>[^.;:|]*)",
    r"(?P<b>[^.;:|]*)\b(?:is|are) (?:not (?:there|implemented|supported|available|written)(?: yet)?|still missing)\b",
    r"(?P<c>[^.;:|]*)\bdo(?:es)? not exist\b",
    r"\b[Nn]o (?P<d>[^.;:|]*)\byet\b",
    r"\b[Nn]othing (?:here )?has (?P<e>[^.;:|]*)",
    r"\b(?:lacks?|has no|have no) (?P<f>[^.;:|]*)\byet\b",
)
_CONDITIONAL = re.compile(
    r"\b(?:if|where|when|while|unless|until|without|before|as long as|which|that|in case|once|because|for which)\b[^.;:|]*$",
    re.IGNORECASE,
)
"""Words before a denial that make it one of a case: "where there is no Gateway"."""
WORDS = {
    "web page": bool(PAGES),
    "browser": bool(PAGES),
    "dashboard": bool(PAGES),
    "user interface": bool(PAGES),
    "console": bool(PAGES),
    "chat": bool(PAGES),
    "simulator": bool(SCENARIOS),
}
"""What people call parts of the product, and whether it has them."""


@cache
def features() -> frozenset[str]:
    """Return names of what the product has, as documents write them."""
    named = {word for word, there in WORDS.items() if there}
    named |= {f"`reconciler {name}`" for name in LISTED} | {f"`make {name}`" for name in TARGETS}
    named |= {f"`{kind}`" for kind in KIND_NAMES}
    named |= {f"`{each.path}`" for dialect in DIALECTS for each in dialect.paths if "{" not in each.path}
    return frozenset(named)


def denials(text: str) -> Iterator[str]:
    """Yield what a text says that there is not, whatever the case."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL).replace("\n", " ")
    for pattern in _DENIALS:
        for found in re.finditer(pattern, prose):
            denied = next(part for part in found.groups() if part is not None)
            before = prose[: found.start()][-80:]
            if not _CONDITIONAL.search(before) and not (
                found.group(0).startswith(denied) and _CONDITIONAL.search(denied)
            ):
                yield denied


def false_denials(text: str) -> list[str]:
    """Return what a text denies although the product has it."""
    return [
        f"{name}: {denied.strip()}"
        for denied in denials(text)
        for name in features()
        if re.search(rf"(?<![\w`-]){re.escape(name)}s?(?![\w-])", denied)
    ]


def no_figure_of_a_real_mac() -> bool:
    """The page of the first day on real Macs still asks what the drivers print there."""
    return "what does the driver print?" in (ROOT / "docs" / "first-day-on-real-macs.md").read_text()


PROOFS = {"real Macs": no_figure_of_a_real_mac}
"""A phrase of each claim under "Not there yet", and whether the claim still holds."""


def unproven(text: str) -> list[str]:
    """Return what stands under "Not there yet" without a proof, or against it, and proofs of what does not stand there."""
    section = text.partition("## Not there yet\n")[2].partition("\n## ")[0]
    bullets = re.findall(r"^- (.*?)(?=\n- |\n\n|\Z)", section, re.MULTILINE | re.DOTALL)
    proven = {phrase: [each for each in bullets if phrase in each] for phrase in PROOFS}
    lone = [each for each in bullets if not any(each in found for found in proven.values())]
    wrong = [phrase for phrase, holds in PROOFS.items() if len(proven[phrase]) != 1 or not holds()]
    return [*lone, *wrong]


def imported(text: str) -> set[str]:
    """Return the packages that Python programs in a text import, beside the standard library."""
    found = set()
    for program in re.findall(r"<<'END'\n(.*?)\nEND\n", text, re.DOTALL):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom):
                found.add(str(node.module).partition(".")[0])
    return found


def uninstalled(text: str) -> list[str]:
    """Return packages that a program needs, and that no line says how to install."""
    return [name for name in imported(text) if f"pip install {name}" not in text]


CHECKS = (
    false_commands,
    false_targets,
    false_links,
    false_figures,
    false_kinds_of_chaos,
    false_python,
    false_denials,
    unproven,
    uninstalled,
)


def false_claims(text: str) -> list[str]:
    """Return every claim of the README that is false."""
    return [f"{check.__name__}: {claim}" for check in CHECKS for claim in check(text)]
