"""The comment of a pull request: the plan of its changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LINES_MAX = 60


def planned(commit: str, preview: Mapping[str, Any]) -> str:
    """Return the plan of a change, as Markdown, from the answer to ``wire.admin.Preview``."""
    plan = preview["plan"]
    parts = [f"### What {commit[:10]} would do here"]
    if preview["removes"]:
        parts.append(
            _listed(f"Removes {len(preview['removes'])} of {preview['of']} objects", preview["removes"])
        )
    if preview.get("serving"):
        names = [f"Allow-Removal: {name.rpartition('/')[2]}" for name in preview["serving"]]
        parts.append(_listed("It removes what serves now, so one of its commits has to say", names))
    if preview.get("runs"):
        parts.append(_listed("It would run these jobs", [job["text"] for job in preview["runs"]]))
        names = [f"Allow-Job: {job['object'].rpartition('/')[2]}" for job in preview["runs"]]
        parts.append(_listed("so one of its commits has to say", names))
    if preview.get("suspended"):
        parts.append(f"**Not now**: {_escaped(preview['suspended'])}")
    if preview.get("tooLarge"):
        parts.append(
            _listed("It would be refused, because no node could ever hold this", preview["tooLarge"])
        )
    if preview["held"]:
        parts.append("**It would be held** until somebody approves it with `reconciler approve REVISION`.")
    costs = [f"{each['object']}: {each['text']}" for each in preview.get("changes", ()) if each["text"]]
    if costs:
        parts.append(_listed("Changes", costs))
    for title, rows in (
        ("Refused", plan["refused"]),
        ("Steps", plan["steps"]),
        ("Waits", plan["waiting"]),
    ):
        if rows:
            parts.append(_listed(title, [_text(row) for row in rows]))
    if len(parts) == 1:
        parts.append("Nothing: what runs already agrees with it.")
    return "\n\n".join(parts)


def invalid(commit: str, problem: str) -> str:
    """Return the comment of a change with mistakes."""
    lines = problem.replace("```", "'''").splitlines()
    return f"### {commit[:10]} has mistakes\n\n```\n" + "\n".join(lines[:LINES_MAX]) + "\n```"


def _listed(title: str, rows: Sequence[str]) -> str:
    shown = [f"- {_escaped(row)}" for row in rows[:LINES_MAX]]
    if len(rows) > LINES_MAX:
        shown.append(f"- and {len(rows) - LINES_MAX} more")
    return f"**{title}**\n\n" + "\n".join(shown)


def _text(row: Mapping[str, Any]) -> str:
    return f"{row['object']}: {row['text']}" if row.get("object") else str(row["text"])


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is: other people may have written parts of it."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>#|@!~" else each for each in " ".join(text.split()))
