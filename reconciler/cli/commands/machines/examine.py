"""`node examine`: judge the preconditions of a Mac before it joins a cluster, and keep the output of its tools in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import nodes_of
from reconciler.cli.core.complete import nodes
from reconciler.cli.core.confirm import agreed
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.screen import quiet_screen
from reconciler.cli.output.table_layout import beside, fold, page_width
from reconciler.errors import Invalid, Refused

if TYPE_CHECKING:
    from reconciler.doctor.preconditions import Judgement
    from reconciler.inventory.examination.report import Report
    from reconciler.resources import SshAccess

HERE = ("localhost", "127.0.0.1", "::1")
TICK_SECONDS = 1.0
VERDICT, NAME, LABEL = 9, 14, 8
"""Widths of columns."""
GOOD = ("pass", "n/a")


@click.command()
@click.argument("hosts", nargs=-1, metavar="[HOST...]", shell_complete=nodes)
@click.option("--user", help="User to log in as; by default you, or USER of USER@HOST.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the SSH servers; by default 22.")
@click.option(
    "--file", "files", multiple=True, type=click.Path(path_type=Path),
    help="Judge a file of an earlier examination, or of the script; may be repeated.",
)  # fmt: skip
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=Path(),
    help="Folder for the files of this examination; by default the current one.",
)  # fmt: skip
@click.option("--verbs", is_flag=True, help="Open the RDMA driver, even if something there may be using it.")
@click.option(
    "--print-script", is_flag=True, help="Print the script that does the same on a Mac without reconciler."
)
@click.option("-y", "--yes", is_flag=True, help="Accept the host keys and log in without asking.")
@output_option()
@click.pass_obj
def examine(
    settings: Settings, /, hosts: tuple[str, ...], files: tuple[Path, ...], print_script: bool, output: str | None,
    **options: Any,
) -> int:  # fmt: skip
    """Examine Macs before they join a cluster, and say what to do first.

    HOST is a machine with SSH access, `localhost`, or a Node. Changes nothing there, and needs no Node, cluster or
    controller. Each precondition passes, fails, does not apply, or is unknown, in the order of risk. Compares several
    machines. Keeps the output of each machine's tools in a file, `examination-HOST.txt`, without serial numbers, names
    and public addresses, so that you can send it to others. Without --verbs, does not open the RDMA driver while something
    uses it. Exits with 1 unless every precondition that applies passes.

    \b
    Examples:
      reconciler node examine cluster@studio-1.local
      reconciler node examine mini-1.local mini-2.local --user cluster --yes
      reconciler node examine localhost -o json
      reconciler node examine --file examination-20261124T084000Z.txt
      reconciler node examine --print-script > examine-mac.sh
    """
    if print_script:
        from reconciler.inventory.examination.script import script

        click.echo(script(), nl=False)
        return 0
    if not hosts and not files:
        raise click.UsageError("expected a HOST, --file or --print-script", click.get_current_context())
    kept = [_examined(settings, host, options) for host in hosts]
    return _tell(kept + [_read(file) for file in files], output)


def _tell(found: list[tuple[Report, Path]], output: str | None) -> int:
    """Print the verdicts, and return the exit status."""
    from reconciler.doctor.preconditions import compare

    compared = compare([report.versions for report, _ in found]) if len(found) > 1 else ()
    machines = [_body(report, file) for report, file in found]
    same = [{"name": a, "verdict": b.value, "text": c, "steps": d or None} for a, b, c, d in compared]
    lines = [line for report, file in found for line in _page(report, file)]
    lines += [line for a, b, c, d in compared for line in _rows(b.value, a, c, ("to do", d))]
    print_body({"machines": machines, "compared": same}, output, lines)
    verdicts = [each.verdict for report, _ in found for each in report.judgements] + [
        each[1] for each in compared
    ]
    return 0 if all(verdict in GOOD for verdict in verdicts) else 1


# --- the first contact: its host key is shown before anybody logs in ---------------------------------


def presented(host: str, port: int | None) -> Any:
    """Return the host key of a server, after showing its fingerprint. Raises ``Silent``."""
    from reconciler.remote.nodes import introduction

    found = asyncio.run(introduction.host_key(host, port))
    click.echo(f"{host} has the host key {found.fingerprint}", err=True)
    click.echo("compare it on the machine: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub", err=True)
    return found


def met(words: str, options: dict[str, Any], purpose: str) -> tuple[dict[str, Any], bool]:
    """Return the fields of ``spec.ssh`` for ``[USER@]HOST``, after showing its host key, and whether to log in there."""
    from reconciler.remote.nodes import introduction

    own, _, host = words.rpartition("@")
    port = options["port"]
    found = presented(host, port)
    ssh = {
        "host": host,
        **({"port": port} if port else {}),
        "user": options["user"] or own or introduction.current_user(),
        "hostKey": found.line,
    }
    question = f"is this the machine's own key, and should {ssh['user']} log in to {purpose} it?"
    return ssh, options["yes"] or agreed(question)


# --- examining -------------------------------------------------------------------------------------


def _examined(settings: Settings, words: str, options: dict[str, Any]) -> tuple[Report, Path]:
    from reconciler.inventory.examination.record import parse
    from reconciler.inventory.examination.report import report
    from reconciler.inventory.examination.script import SECONDS_MAX, script
    from reconciler.remote.nodes import introduction

    arguments = ("--verbs", "-") if options["verbs"] else ("-",)
    name = words.rpartition("@")[2]
    access = _access(settings, words, options)
    if access is None:
        running = introduction.examine_here(script(), arguments, SECONDS_MAX)
    else:
        running = introduction.examine(access, script(), arguments, SECONDS_MAX)
    text = asyncio.run(_waited(name, running))
    found = report(name, parse(text, name))
    file = options["folder"] / f"examination-{name.replace(':', '-').replace('/', '-')}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return found, file


async def _waited(name: str, running: Coroutine[Any, Any, str]) -> str:
    """Return the result, and meanwhile show ``name``."""
    progress, task = quiet_screen(timed=True), asyncio.create_task(running)
    while not task.done():  # the examination has its own time limit
        await asyncio.wait((task,), timeout=TICK_SECONDS)
        progress.show(f"examining {name}: its tools are run one after the other, mostly within 15 s")
    progress.clear()
    return task.result()


def _access(settings: Settings, words: str, options: dict[str, Any]) -> SshAccess | None:
    """Return the access to a machine; None for this one. Shows the key of a host that is no Node, and asks for consent."""
    from pydantic import ValidationError

    from reconciler.resources import SshAccess

    known = nodes_of(settings).get(words)
    if known is not None or words in HERE:
        return known.ssh if known else None
    ssh, allowed = met(words, options, "examine")
    if not allowed:
        raise Refused(
            "NotAgreed", "nobody logged in; to accept this key and log in, repeat the command with --yes"
        )
    try:
        return SshAccess.model_validate(ssh)
    except ValidationError as error:
        raise Invalid(f"{words}: {error.errors()[0]['msg']}") from None


def _read(file: Path) -> tuple[Report, Path]:
    from reconciler.inventory.examination.record import parse
    from reconciler.inventory.examination.report import report

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{file}: expected a file of an examination, got bytes that are no text: {error}"
        ) from None
    return report(file.stem.removeprefix("examination-"), parse(text, str(file))), file


# --- output ----------------------------------------------------------------------------------------


def _page(report: Report, file: Path) -> Iterator[str]:
    facts = report.facts
    macos = f"macOS {report.versions.macos}" if report.versions.macos else "macOS"
    yield f"{report.name}: {', '.join(filter(None, (macos, facts.model, facts.chip)))}"
    for each in report.judgements:
        more = () if each.verdict in GOOD else (("to do", each.steps), ("see it", _shows(each, report.name)))
        yield from _rows(each.verdict.value, each.precondition.name, each.text, *more)
    for name, why in report.record.left_out.items():
        yield from _rows("left out", name, why)
    yield from fold(f"what its tools printed is in {file}", page_width(), "  ")
    yield ""


def _rows(verdict: str, name: str, text: str, *more: tuple[str, str]) -> Iterator[str]:
    """Yield a line with a verdict, and below it further texts."""
    shown = verdict.upper() if verdict == "fail" else verdict
    yield from beside(f"  {shown:<{VERDICT}}{name:<{NAME - 1}} ", text, page_width())
    for label, words in more:
        if words:
            yield from beside(f"{'':{2 + VERDICT + NAME}}{label:<{LABEL}}", words, page_width())


def _shows(judgement: Judgement, name: str) -> str:
    return judgement.precondition.shows.format(node=name, port="PORT")


def _body(report: Report, file: Path) -> dict[str, Any]:
    return {
        "name": report.name,
        "macos": report.versions.macos or None,
        "model": report.facts.model or None,
        "chip": report.facts.chip or None,
        "at": report.record.at,
        "file": str(file),
        "preconditions": [
            {
                "name": each.precondition.name,
                "verdict": each.verdict.value,
                "text": each.text,
                "steps": each.steps or None,
                "shows": _shows(each, report.name),
            }
            for each in report.judgements
        ],
        "leftOut": [{"probe": name, "why": why} for name, why in report.record.left_out.items()],
    }
