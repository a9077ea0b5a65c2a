"""Errors say what to do next, on standard error, and exit statuses are kubectl's."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reconciler.cli.core import client, hints
from reconciler.cli.core.client import Client
from reconciler.errors import Unreachable

from .conftest import Cli, Controller

BROKEN = "apiVersion: reconciler/v1alpha1\nkind: Nod\n"
VALID = "apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata:\n  name: a\nspec:\n  local: {}\n"

WITH_CONTROLLER = [
    (("get", "nodes"), 0, ""),
    (("plan",), 0, ""),
    (("plan", "--exit-code"), 0, ""),
    (("get", "podz"), 2, 'unknown kind "podz"; expected one of nodes, fabrics, models,'),
    (("get", "modeldeploymnets"), 2, 'did you mean "modeldeployments"?'),
    (("get", "node", "nod-a", "b"), 1, 'nodes "nod-a" not found; did you mean "node-a"?'),
    (("get", "nodes,models", "a"), 2, "names need a single kind; use KIND/NAME for each"),
    (("get", "node/a", "b"), 2, '"b" is not KIND/NAME; use KIND/NAME for all'),
    (("get", "all", "a"), 2, '"all" takes no names; use KIND a'),
    (("get", "models,podz"), 2, 'unknown kind "podz"'),
    (("get", "all", "all", "-w"), 2, '"all" takes no names'),
    (("get", "nodes,models", "-w"), 2, "--watch takes one kind"),
    (("get", "nodes", "-o", "jsonpath"), 2, "expected a template, such as"),
    (("get", "nodes", "-o", "jsonpath={.items[}"), 2, 'at character 9, "}": expected an index'),
    (("get", "nodes", "-o", "jsonpath={.items[9]}"), 1, "array index out of bounds: index 9, length 2"),
    (("get", "nodes", "-o", "custom-columns=NAME"), 2, "expected HEADER:PATH"),
    (("get", "nodes", "-o", "json=x"), 2, "json takes no argument"),
    (("get", "nodes", "--sort-by", ".a]"), 2, "expected . or [ or the end of the path"),
    (("get", "nodes", "-l", "a=b=c"), 2, "is not a label selector"),
    (("get", "node", "nod-a"), 1, 'nodes "nod-a" not found; did you mean "node-a"?'),
    (("describe", "node/nod-a"), 1, 'nodes "nod-a" not found'),
    (("get", "node", "other"), 1, 'nodes "other" not found; list them with: reconciler get nodes'),
    (("describe", "nodes"), 0, ""),
    (("describe", "ranks"), 2, "ranks are described with their deployment"),
    (("logs", "tinny"), 1, 'modeldeployments "tinny" not found'),
    (("logs", "tiny", "--replica", "1"), 1, "replica 1 of tiny has no group now"),
    (
        ("get", "nodes", "-o", "xml"),
        2,
        "'xml' is not one of 'json', 'yaml', 'name', 'wide', 'dot', 'svg', 'jsonpath', 'custom-columns'",
    ),
    (("gett",), 2, 'unknown command "gett", did you mean "get"?'),
    (("frobnicate",), 2, 'unknown command "frobnicate"\nSee: reconciler --help\n'),
    (
        ("rollout", "stauts"),
        2,
        'unknown command "stauts", did you mean "status"?\nSee: reconciler rollout --h',
    ),
]


@pytest.mark.parametrize(("arguments", "code", "text"), WITH_CONTROLLER)
def test_exit_statuses_with_a_controller(
    arguments: tuple[str, ...], code: int, text: str, cli: Cli, controller: Controller
) -> None:
    result = cli(*arguments)
    assert result.code == code
    assert text in result.err
    assert result.err == "" if code == 0 else result.err.startswith("error: ")


WITHOUT_CONTROLLER = [
    (("get", "nodes"), 1, "no controller runs in {home}; start it with: reconciler up"),
    (("plan",), 1, "no controller runs in"),
    (("diff", "-f", "missing.yaml"), 2, "missing.yaml does not exist"),
    (("diff", "-f", "broken.yaml"), 2, 'broken.yaml:2:7: kind: unknown kind "Nod", did you mean "Node"?'),
    (("diff",), 2, "Missing option '-f'"),
    (("diff", "-f", "valid.yaml"), 1, ""),
    (("validate", "-f", "valid.yaml"), 0, ""),
    (("validate", "-f", "broken.yaml"), 1, "error: 1 problem in the manifests, listed above"),
    (("validate", "-f", "empty"), 1, "no manifests in empty"),
    (("apply", "-f", "broken.yaml"), 1, "broken.yaml:2:7: "),
    (("up", "--watch", "empty", "-f", "valid.yaml"), 2, "--watch and -f cannot be combined"),
    (("up", "--watch", "missing"), 1, "missing is not a folder"),
    (("up", "--models", "missing"), 1, "missing is not a folder"),
]


@pytest.mark.parametrize(("arguments", "code", "text"), WITHOUT_CONTROLLER)
def test_exit_statuses_without_a_controller(
    arguments: tuple[str, ...], code: int, text: str, cli: Cli, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN)
    (tmp_path / "valid.yaml").write_text(VALID)
    (tmp_path / "empty").mkdir()
    result = cli(*arguments)
    assert result.code == code
    assert text.format(home=home) in result.err


WORDS_OF_OTHER_TOOLS = [
    (("taint", "nodes", "a"), 'unknown command "taint"; taints are in the manifest of a Node'),
    (("down",), 'unknown command "down"; Ctrl-C in the terminal of `reconciler up` stops'),
    (("create", "-f", "a.yaml"), "use: reconciler apply -f FILE"),
    (("--version",), "No such option '--version'. Use: reconciler version"),
    (("get", "po"), 'unknown kind "po"; processes are called ranks: reconciler get ranks'),
    (("get", "pods", "-A"), "No such option '-A'. There are no namespaces; omit it"),
    (("-n", "default", "get", "nodes"), "No such option '-n'. There are no namespaces"),
    (("get", "events"), 'unknown kind "events"; use: reconciler events'),
    (
        ("get", "nodes", "--kubeconfig", "k"),
        "A cluster is a state folder, here or elsewhere: reconciler --home PATH",
    ),
    (("apply", "-k", "."), "kustomize build DIR | reconciler apply -f -"),
    (("events", "deployment/tiny"), "choose an object with: --for KIND/NAME"),
    (("backup", "all.tar.gz"), "choose the file with: -o FILE"),
    (("plan", "f.yaml"), "see what a change would do with: reconciler apply --dry-run=server -f FILE"),
]


@pytest.mark.parametrize(("arguments", "text"), WORDS_OF_OTHER_TOOLS)
def test_what_other_tools_call_it_is_answered_with_what_it_is_called_here(
    arguments: tuple[str, ...], text: str, cli: Cli
) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert text in result.err


def test_every_answer_to_words_of_other_tools_names_commands_and_options_that_exist(cli: Cli) -> None:
    tables = (hints.COMMANDS, hints.KINDS, hints.OPTIONS, hints.ARGUMENTS)
    for advice in {advice for table in tables for advice in table.values()}:
        for named in re.findall(r"reconciler ((?:rollout |context )?[a-z][a-z-]*)", advice):
            assert cli(*named.split(), "--help").code == 0, advice
    for words in hints.COMMANDS:
        assert "unknown command" in cli(*words.split()).err
    for word in hints.KINDS:
        assert f'unknown kind "{word}"; ' in cli("get", word).err


def test_a_plan_with_steps_exits_with_two_where_that_is_asked_for(cli: Cli, controller: Controller) -> None:
    step = {"step": "StartRank", "object": "modeldeployment/tiny", "text": "start rank 0"}
    controller.answers["plan"] = {"steps": [step], "waiting": [], "refused": []}
    assert cli("plan").code == 0
    assert cli("plan", "--exit-code").code == 2


def test_without_a_command_the_help_is_shown() -> None:
    command = [sys.executable, "-m", "reconciler"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Examples:" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        *("up", "init", "validate", "apply", "diff", "plan", "get", "describe", "events", "logs", "version"),
        *("delete", "scale", "cordon", "uncordon", "drain"),
    ],
)
def test_every_command_has_help_with_an_example(command: str, cli: Cli) -> None:
    result = cli(command, "--help")
    assert result.code == 0
    assert f"reconciler {command}" in result.out.split("Example", 1)[1]


def test_the_list_of_commands_says_all_that_it_begins_to_say(cli: Cli) -> None:
    listed = cli("--help").out.split("Run a cluster:\n")[1].splitlines()
    assert [line for line in listed if line.endswith("...") or len(line) > 80] == []


@pytest.mark.parametrize("command", ["controller", "gateway"])
def test_the_processes_behind_up_are_not_listed(command: str, cli: Cli) -> None:
    assert f"  {command} " not in cli("--help").out
    assert cli(command, "--help").code == 0


def test_a_home_that_cannot_be_made_is_named(cli: Cli, home: Path) -> None:
    home.write_text("a file where a folder should be")
    assert cli("init").err == f"error: {home}: File exists\n"


def test_a_home_too_long_for_sockets_is_refused_before_anything_starts(tmp_path: Path, cli: Cli) -> None:
    long = tmp_path / ("x" * 100)
    result = cli("--home", str(long), "up")
    assert result.code == 1
    assert "choose a shorter RECONCILER_HOME" in result.err
    assert not long.exists()


def test_a_socket_that_a_dead_controller_left_behind_counts_as_none(cli: Cli, home: Path) -> None:
    home.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(home / "controller.sock"))
    assert cli("get", "nodes").err.startswith(f"error: no controller runs in {home}")


def test_a_controller_that_up_is_about_to_start_is_waited_for_and_then_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    path = home / "controller.sock"
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as up,
        socket.socket(socket.AF_UNIX) as late,
    ):
        (home / "up.lock").write_text(str(up.pid))
        with pytest.raises(
            Unreachable, match=f"is being started by reconciler up .pid {up.pid}.; if it does not"
        ):
            Client(path, seconds=0.3)
        late.bind(str(path))

        def serve() -> None:
            late.listen()
            late.accept()[0].close()

        monkeypatch.setattr(client, "START_SECONDS_MAX", 60.0)
        begin = threading.Timer(0.3, serve)
        begin.start()
        with pytest.raises(
            Unreachable, match=r"lost the connection|cannot connect"
        ):  # it was reached, and is no controller
            Client(path)
        begin.join()
    path.unlink()
    with pytest.raises(Unreachable, match="no controller runs in"):
        Client(path)


def test_a_controller_that_does_not_answer_is_not_waited_for_forever(home: Path) -> None:
    home.mkdir()
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(home / "controller.sock"))
        mute.listen()
        with pytest.raises(Unreachable, match="does not answer: it may be stopped or very busy"):
            Client(home / "controller.sock", seconds=0.1)


def test_no_colours_where_nobody_looks(cli: Cli) -> None:
    assert "\x1b" not in cli("get", "nodes").err


def test_the_module_is_the_command(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", "get", "nodes"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "RECONCILER_HOME": str(home)},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: no controller runs in {home}")


def test_a_reader_that_goes_away_is_no_traceback(home: Path) -> None:
    command = f"{sys.executable} -m reconciler --help | true"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""


def test_an_interrupt_within_a_destructor_ends_the_command_in_silence() -> None:
    """As Ctrl-C does that comes while pydantic-core builds a schema: its callbacks cannot raise."""
    script = """
import signal, sys, time
from reconciler.cli import main
from reconciler.cli.core import app

class Fleeting:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def run():
    Fleeting()
    for _ in range(200):
        time.sleep(0.1)
    sys.exit("it went on")

app.run = run
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "")
