"""`sandbox`: emulate Macs to try manifests and rehearse faults."""

from __future__ import annotations

import asyncio
import logging
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from reconciler.cli.core.app import Settings, SuggestingGroup
from reconciler.cli.core.environment import OWN_COMMAND, own_environment
from reconciler.cli.core.shipped import SHIPPED
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.parsed import PATH
from reconciler.cli.output.typed import typed
from reconciler.errors import Conflict, Invalid, Unreachable
from reconciler.sandbox.commands import COMMANDS

from .sandbox_view import view

DOWN_SECONDS = 60.0
ANSWER_SECONDS = 30.0


@click.group(cls=SuggestingGroup)
def sandbox() -> None:
    """Emulate Macs on this machine, and rehearse faults on them.

    Each is reached over SSH on loopback and answers like a Mac. The processes on it are real. See docs/rehearse.md.

    \b
    Examples:
      reconciler sandbox up --nodes 4 --fabric mesh --detach
      reconciler sandbox status
      reconciler sandbox unplug studio-1/3
      reconciler sandbox down
    """


@sandbox.command()
@click.option(
    "--nodes",
    type=click.IntRange(1, 16),
    help="Number of Macs; with -f, the number of Nodes that the manifests must have.",
)
@click.option(
    "--fabric",
    help="Cabling: mesh, ring, or a file with a Fabric; by default as in the manifests' Fabrics, else mesh.",
)
@click.option(
    "--mac",
    help="Type of Mac: studio, studio-max, mini, macbook, mini-tb4; by default from its name, else studio.",
)
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    help="Manifests: each Node becomes an emulated Mac, and all other objects are kept.",
)
@click.option(
    "--models",
    type=PATH,
    help="Link the model folders in this folder into each machine; by default the tiny model.",
)
@click.option("--addressed", is_flag=True, help="Set up the network of the cables first.")
@click.option("--detach", is_flag=True, help="Return when everything is ready, and keep it running.")
@click.pass_obj
def up(settings: Settings, /, detach: bool, models: Path | None, **how: Any) -> int:
    """Start emulated Macs, and write manifests with Nodes for them.

    \b
    Examples:
      reconciler sandbox up --nodes 2 --fabric mesh --detach
      reconciler sandbox up -f examples/four-studios --models examples/models --detach
      reconciler sandbox up --nodes 4 --fabric mesh -f examples/four-studios --detach
      reconciler sandbox up --nodes 4 -f examples/four-studios/serving.yaml --detach
      reconciler sandbox up --nodes 3 --fabric ring --mac mini
    """
    from reconciler.sandbox.server import Ground, sweep

    ground = Ground(settings.home / "sandbox")
    if _answers(ground.control):
        raise Conflict(
            "emulated Macs are already running; show them with: reconciler sandbox status, stop them with: reconciler sandbox down"
        )
    world, manifests = _requested_machines(**how)
    if detach:
        return _detached(settings, ground.folder)
    ground.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.home.chmod(0o700)
    asyncio.run(sweep(ground))
    logging.basicConfig(
        stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING
    )
    return _serve(ground, world, manifests, models)


def _requested_machines(
    nodes: int | None, fabric: str | None, mac: str | None, paths: tuple[str, ...], addressed: bool
) -> tuple[Any, list[Any]]:
    """Return the machines with their cables, and the manifests for them. Raises ``Invalid``."""
    from reconciler.cli.core.given import load_paths
    from reconciler.sandbox import cluster
    from reconciler.sandbox.world import changes

    if not paths and not nodes:
        raise click.UsageError("give the number of Macs with --nodes, or manifests with -f MANIFESTS")
    boot_ids = [str(uuid.uuid4()).upper() for _ in range(cluster.MACHINES_MAX)]
    manifests = [each.manifest for each in load_paths(paths)] if paths else []
    machines = cluster.of_nodes(manifests, mac, boot_ids, time.time(), nodes)
    shape, there = _cabling(fabric)
    world = cluster.joined(machines, manifests, shape, there)
    if not any(each.kind == "Fabric" for each in manifests):
        manifests += there
    return (changes.addressed(world, _declared_addresses(manifests)) if addressed else world), manifests


def _declared_addresses(manifests: Sequence[Any]) -> dict[tuple[str, int], str]:
    """Return the addresses that the Fabrics give the ends of their links, with the lengths of their prefixes."""
    from reconciler.planning.transport.link_addresses import fabric_addresses

    return {
        (end.node, end.receptacle): str(address)
        for fabric in manifests
        if fabric.kind == "Fabric"
        for end, address in fabric_addresses(fabric).items()
    }


def _serve(ground: Any, world: Any, manifests: list[Any], models: Path | None) -> int:
    from reconciler.sandbox import cluster
    from reconciler.sandbox.server import Sandbox, run

    box = Sandbox(ground, world, models or SHIPPED / "models")

    def ready() -> None:
        ground.cluster.mkdir(mode=0o700, exist_ok=True)
        for name, text in cluster.written(box, manifests).items():
            (ground.cluster / name).write_text(text, encoding="utf-8")
        names = ", ".join(f"{name} (port {box.port(name)})" for name in box.places)
        place = shlex.quote(str(ground.cluster))
        click.echo(typed(f"emulated: {names}\nnext: reconciler up -f {place}"))

    return asyncio.run(_until_signal(run(box, ready)))


def _cabling(fabric: str | None) -> tuple[str | None, list[Any]]:
    """Return the name of a cabling, or the Fabrics of a file."""
    from reconciler.sandbox.world.macs import MESH, RING
    from reconciler.source.files import read_paths
    from reconciler.source.yaml.documents import load

    if fabric in (None, MESH, RING):
        return fabric, []
    if not Path(fabric).exists():
        raise Invalid(f"{fabric!r} is not mesh, ring, or a file with a Fabric")
    found = [each.manifest for each in load(read_paths((fabric,), lambda: b""), part=True)]
    fabrics = [each for each in found if each.kind == "Fabric"]
    if not fabrics:
        raise Invalid(f"there is no Fabric in {fabric}; use mesh, ring, or a file with one")
    return None, fabrics


async def _until_signal(work: Any) -> int:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
    return 0


def _detached(settings: Settings, folder: Path) -> int:
    """Run the same command without --detach in a session of its own, and wait until it is ready."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    arguments = [word for word in sys.argv[1:] if word != "--detach"]
    log = folder / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*OWN_COMMAND, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            env=own_environment(settings.home),
        )  # fmt: skip
    assert process.stdout is not None
    lines = [line for line in (process.stdout.readline(), process.stdout.readline()) if line]
    if len(lines) == 2:
        click.echo(b"".join(lines).decode(), nl=False)
        return 0
    with suppress(subprocess.TimeoutExpired):
        process.wait(DOWN_SECONDS)
    raise Unreachable(
        f"the sandbox did not start: {log.read_text(encoding='utf-8').strip()[-2000:] or process.returncode}"
    )


@sandbox.command()
@click.pass_obj
def down(settings: Settings) -> int:
    """Stop the emulated Macs and everything that runs on them.

    \b
    Examples:
      reconciler sandbox down
    """
    from reconciler.sandbox.server import Ground, sweep

    ground = Ground(settings.home / "sandbox")
    with suppress(OSError, TimeoutError):
        _ask(ground.control, {"ask": "down"}, DOWN_SECONDS)
    swept = asyncio.run(sweep(ground))
    click.echo("all emulated Macs have stopped" + (f"; killed {swept} leftover processes" if swept else ""))
    return 0


@sandbox.command()
@output_option()
@click.pass_obj
def status(settings: Settings, output: str | None) -> int:
    """Show the emulated Macs, their cables, and their faults.

    \b
    Examples:
      reconciler sandbox status
      reconciler sandbox status -o json
    """
    world = _request(settings, {"ask": "world"})["world"]
    print_body(world, output, view(world))
    return 0


def _request(settings: Settings, question: dict[str, Any]) -> dict[str, Any]:
    from reconciler.sandbox.server import Ground

    try:
        answer = _ask(Ground(settings.home / "sandbox").control, question, ANSWER_SECONDS)
    except (OSError, TimeoutError):
        raise Unreachable(
            f"no emulated Macs run for {settings.home}; start some with: reconciler sandbox up --nodes 2 --detach"
        ) from None
    if not answer["ok"]:
        raise Invalid(answer["error"])
    return answer


def _ask(control: Path, question: dict[str, Any], seconds: float) -> dict[str, Any]:
    from reconciler.sandbox.control import request

    return asyncio.run(request(control, question, seconds))


def _answers(control: Path) -> bool:
    with suppress(OSError, TimeoutError):
        return bool(_ask(control, {"ask": "world"}, ANSWER_SECONDS)["ok"])
    return False


def _fault(name: str, command: Any) -> click.Command:
    """Return a click command for one of ``faults.COMMANDS``."""

    def act(settings: Settings, words: Sequence[str], undo: bool = False) -> int:
        answer = _request(settings, {"ask": "do", "command": name, "words": list(words), "undo": undo})
        click.echo(typed(answer["said"]))
        return 0

    examples = [f"reconciler sandbox {name} {words}" for words in command.examples]
    if not command.back:
        examples.append(f"{examples[0]} --undo")
    back = f"Undo it with {command.back}.\n\n    " if command.back and command.back != name else ""
    text = f"{command.summary}\n\n    {back}\b\n    Examples:\n" + "".join(
        f"      {line}\n" for line in examples
    )
    arguments: list[click.Parameter] = [
        click.Argument(["words"], nargs=-1, required=True, metavar=command.usage)
    ]
    if not command.back:
        arguments.append(click.Option(["--undo"], is_flag=True, help="Undo the fault."))
    call: Callable[..., int] = click.pass_obj(act)
    return click.Command(name, params=arguments, callback=call, help=text, short_help=command.summary)


for name, command in COMMANDS.items():
    sandbox.add_command(_fault(name, command))
