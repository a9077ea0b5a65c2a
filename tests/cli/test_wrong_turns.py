"""What people who are new, or who know kubectl and Flux, type first: every wrong turn names what to type next.

Taken from sessions in which a hundred commands were tried, half of them wrong; the others are in ``test_contract.py``,
``test_errors.py`` and docs/kubectl.md.
"""

from __future__ import annotations

import re
import shlex

import click
import pytest

from reconciler.cli.core import hints
from reconciler.cli.core.app import COMMANDS, reconciler

from .conftest import Cli, Controller

TURNS = [
    (
        "apply x.yaml",
        2,
        r"Got unexpected .*; files are named with -f, such as: reconciler apply -f manifests/",
    ),
    ("scale tiny", 2, r"Missing option '--replicas'; such as: reconciler scale tiny --replicas=2"),
    ("key create", 2, "Missing argument 'NAME'; such as: reconciler key create open-webui"),
    ("list models", 2, "use: reconciler get KIND, such as: reconciler get models"),
    ("get models -o yml", 2, 'did you mean "yaml"'),
    ("get models -o table", 2, "a table is what comes without -o"),
    ("get tinny", 2, 'there is no kind and no object "tinny", did you mean "tiny"'),
    ("describe rank tiny.0.3.0", 2, "reconciler describe deployment tiny$"),
    ("logs tiny --rank 7", 1, "tiny has no rank 7 now; choose one of 0, 1, such as: --rank 0"),
    ("logs tiny -n 20", 2, "Choose the number of lines with: --tail N"),
    ("logs pod/tiny", 2, "processes are called ranks"),
    ("top tiny", 2, "expected nodes, ranks, or ranks and a deployment"),
    ("wait md/tiny --for=ready", 2, '"ready" is a condition: --for=condition=Ready'),
    ("wait md/tiny --for=condition=Available", 2, 'have no condition "Available", did you mean "Ready"'),
    ("wait md/tiny --for=condition=Progressing", 2, 'did you mean "Reconciling"'),
    ("wait tiny --for=condition=Ready", 2, "say which: model/tiny or modeldeployment/tiny"),
    ("config view", 2, "use: reconciler context list"),
    ("config set-context x", 2, "use: reconciler context add NAME WHERE"),
    ("context add studio studio.local", 2, "of another machine: ssh://studio.local"),
    ("context add studio ssh://a@b/c", 2, "expected ssh://admin@studio.local"),
    ("version --client", 2, "is the first line of: reconciler version"),
    ("auth can-i get nodes", 2, "clients have keys: reconciler get apikeys"),
    ("kustomize .", 2, "kustomize build DIR"),
    ("patch md/tiny -p 'spec: {}' --type strategic", 2, "expected merge or json"),
    ("label md/tiny tier", 2, "expected KEY=VALUE to set a value, or KEY- to remove one"),
    (
        "get md -o jsonpath={.items[0].spec.replica}",
        0,
        "no object has this; see what there is: reconciler get KIND -o yaml",
    ),
    ("top ranks --sort-by=cpu", 2, "All figures, to sort them: reconciler top -o json"),
    ("events --for tiny", 2, "expected KIND/NAME, such as: --for deployment/tiny"),
    ("bootstrap github", 2, "use: reconciler source set URL, and reconciler ci init"),
    ("check", 2, "use: reconciler doctor"),
    ("stats", 2, "use: reconciler get all"),
    ("reconcile source git flux-system", 2, "look at a remote repository now: reconciler source sync"),
    ("get gitrepositories", 2, "a remote repository: reconciler source show"),
    ("get sources git", 2, "a remote repository: reconciler source show"),
    (
        "sbatch train.sh",
        2,
        "a job is a manifest: reconciler apply -f FILE; the fields: reconciler explain job.spec",
    ),
    ("nomad job run train", 2, "a job is a manifest: reconciler apply -f FILE"),
    ("scancel 3", 2, "use: reconciler cancel job/NAME"),
    ("squeue", 2, "use: reconciler get jobs"),
    ("get runs", 2, "runs belong to jobs: reconciler get jobs, or reconciler describe job/NAME"),
    ("stop job/train", 2, "for one job: reconciler cancel job/NAME"),
    ("helo", 2, 'did you mean "help"'),
    ("help gte", 2, 'did you mean "get"'),
]


@pytest.mark.parametrize(("line", "code", "text"), TURNS, ids=[turn[0] for turn in TURNS])
def test_a_wrong_turn_names_what_to_type_next(
    line: str, code: int, text: str, cli: Cli, controller: Controller
) -> None:
    done = cli(*shlex.split(line))
    assert done.code == code, done.out + done.err
    assert re.search(text, done.err, re.MULTILINE), done.err


ELSEWHERE_TYPED = (
    "dashboard", "chat", "pull", "bench", "show", "deploy", "ui", "web", "images", "login", "dmesg", "etcd", "kubeconfig",
    "flux", "search", "load", "unload", "ping", "monitor", "tui", "download", "convert", "models", "nodes", "gateways",
    "fabrics", "apikeys", "modeldeployments", "gateway", "apikey", "examine", "shutdown", "open", "join", "inspect", "info",
)  # fmt: skip
"""What people of exo, ollama, compose, talosctl and flux type."""
TYPED = [
    *ELSEWHERE_TYPED,
    *hints.COMMANDS,
    *hints.KINDS,
    *(f"{group} {word}" for group in (*hints.GROUPS, *hints.OTHER_GROUPS) for word in hints.VERBS),
]


def test_every_word_of_other_tools_is_answered_with_a_command_that_exists(cli: Cli) -> None:
    assert len(set(TYPED)) > 200
    answers = {}
    for line in TYPED:
        words = line.split()
        if _is_ours(words):
            continue
        done = cli(*words)
        assert done.code == 2, line
        answers[line] = done.err
        named = re.findall(r"reconciler ([a-z][a-z-]+)", done.err.partition("; ")[2].partition("See:")[0])
        assert (
            named or "docs/" in done.err or "Ctrl-C" in done.err or "omit it" in done.err or " -" in done.err
        ), (line, done.err)
        assert all(each in COMMANDS for each in named), (line, done.err)
        assert "did you mean" not in done.err, (line, done.err)
    assert len(answers) > 200


def _is_ours(words: list[str]) -> bool:
    """Whether words name a command of ours, so that nothing is wrong with them."""
    group = click.Context(reconciler)
    command = reconciler.get_command(group, words[0])
    if len(words) == 1 or not isinstance(command, click.Group):
        return command is not None
    return command.get_command(click.Context(command), words[1]) is not None
