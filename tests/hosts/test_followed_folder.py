"""One folder of a larger repository on another host, followed by a real controller: every command works as in a home that
has nothing else, what lies beside the folder changes nothing, and after each command nothing is left to do."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click
import pytest
import yaml

from reconciler.cli.core.client import ask
from reconciler.source.git.repository import EMPTY
from reconciler.wire.admin import ShowStatus
from tests.cli.test_reference import COMMANDS
from tests.e2e.cluster import MODEL, ROOT, deployment, node

from .team import Team, https_served, team_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.second_tier]

FOLDER = "clusters/a"
GATEWAY = """\
apiVersion: reconciler/v1alpha1
kind: Gateway
metadata: {name: main}
spec: {listen: "127.0.0.1:8438", auth: {mode: none}}
"""
HUB = """\
apiVersion: reconciler/v1alpha1
kind: Model
metadata: {name: hub}
spec: {source: {huggingface: {repo: org/llama, revision: 1f0c2a9b3d1f0c2a9b3d1f0c2a9b3d1f0c2a9b3d}}}
"""
WINDOW = """\
apiVersion: reconciler/v1alpha1
kind: SyncWindow
metadata: {name: nights}
spec: {kind: deny, schedule: "0 0 1 1 *", duration: 1h, timeZone: UTC, nodes: [absent]}
"""
OURS = {
    "gateway.yaml": GATEWAY,
    "node-a.yaml": node("node-a"),
    "node-b.yaml": node("node-b"),
    "tiny/model.yaml": MODEL,
    "tiny/deployment.yaml": deployment("tiny", 1),
    "window.yaml": WINDOW,
}
NAMES = {
    "Gateway/main",
    "Model/tiny",
    "ModelDeployment/tiny",
    "Node/node-a",
    "Node/node-b",
    "SyncWindow/nights",
}
BESIDE = {
    "clusters/b/tiny/deployment.yaml": deployment("tiny", 5, replicas=9),
    "clusters/b/nodes.yaml": node("node-a") + "---\n" + node("elsewhere"),
    "clusters/ab/nodes.yaml": node("elsewhere"),
    "apps/kustomization.yaml": "kind: Kustomization\n",
    "charts/templates/broken.yaml": "{{ .Values.name }}: [\n",
    "nodes.yaml": node("elsewhere"),
    "media/film.bin": "x" * (2 * 1024 * 1024),
}
"""Files of others in the same repository: also objects of our names, wrong YAML, and a file that a push would refuse."""


READS = {
    "get": ("get all", "get deployment tiny -o yaml", "get nodes -o json", "get operations"),
    "describe": ("describe deployment/tiny", "describe node/node-a"),
    "diff": ("diff -f {ours}",),
    "validate": ("validate -f {ours}",),
    "plan": ("plan", "plan -f {ours}"),
    "chat": ("chat tiny hello",),
    "wait": ("wait deployment/tiny --for=condition=Ready --timeout=5s",),
    "trace": ("trace deployment/tiny",),
    "history": ("history", "history {head}"),
    "rollout history": ("rollout history deployment/tiny",),
    "rollout status": ("rollout status deployment/tiny",),
    "events": ("events",),
    "incidents": ("incidents",),
    "doctor": ("doctor",),
    "top": ("top nodes",),
    "logs": ("logs deployment/tiny --tail=3",),
    "facts export": ("facts export -o {folder}/facts.json",),
    "support": ("support -o {folder}/support.tar.gz",),
    "backup": ("backup -o {folder}/backup.tar.gz",),
    "verify": ("verify deployment/tiny",),
    "init": ("init",),
    "source show": ("source show",),
    "source sync": ("source sync",),
    "version": ("version",),
}
"""Commands that change nothing."""
OPERATIONS = {
    "cordon": ("cordon node-a", "cordon.node.node-a"),
    "uncordon": ("uncordon node-a", ""),
    "drain": ("drain node-a --force", "drain.node.node-a"),
    "suspend": ("suspend deployment/tiny", "drain.node.node-a suspend.modeldeployment.tiny"),
    "resume": ("resume deployment/tiny", "drain.node.node-a"),
    "undo": ("undo drain.node.node-a", ""),
    "scale": ("scale deployment/tiny --replicas=2", "scale.modeldeployment.tiny"),
    "rollout pause": (
        "rollout pause deployment/tiny",
        "pause.modeldeployment.tiny scale.modeldeployment.tiny",
    ),
    "rollout resume": ("rollout resume deployment/tiny", "scale.modeldeployment.tiny"),
    "override": (
        "override nights --for=1h --reason fire",
        "override.syncwindow.nights scale.modeldeployment.tiny",
    ),
    "stop": ("stop", "override.syncwindow.nights scale.modeldeployment.tiny stop.cluster.main"),
    "start": ("start", "override.syncwindow.nights scale.modeldeployment.tiny"),
    "rollout restart": (
        "rollout restart deployment/tiny",
        "override.syncwindow.nights restart.modeldeployment.tiny scale.modeldeployment.tiny",
    ),
}
"""Commands that commit operations, in this order, and the operations that are there afterwards."""
WISHES = {
    "apply": ("apply -f {ours}", "apply -f {folder}/hub.yaml"),
    "label": ("label model/hub room=b",),
    "annotate": ("annotate node/node-a why=new",),
    "patch": ('patch node node-b -p {{"metadata":{{"labels":{{"room":"b"}}}}}}',),
    "edit": ("edit deployment/tiny",),
    "model update": ("model update hub --revision=0123456789012345678901234567890123456789",),
    "rollout undo": ("rollout undo deployment/tiny",),
    "key create": ("key create ada",),
    "key rotate": ("key rotate ada",),
    "key revoke": ("key revoke ada",),
    "delete": ("delete model/hub",),
}
"""Commands that commit wishes, in this order."""
APART = {
    *("approve", "restore", "source set", "source unset", "up"),  # each has a place of its own below
    *("artifacts", "cancel", "restart"),  # of a Job, and none is here
    *("reboot", "model verify"),  # not of the controller's own machine, and not of a model without digests
}
OF_NO_HOME = {
    *(
        "api-resources",
        "api-versions",
        "ci",
        "completion",
        "console",
        "context",
        "explain",
        "fabric",
        "help",
        "install",
        "node",
    ),
    *("quickstart", "rehearse", "rollback", "sandbox", "schema", "uninstall", "upgrade"),
}
"""First words of commands that need no controller, or are for machines."""


@dataclass
class Lab(Team):
    """A team whose repository has more than one cluster."""

    def commits(self, files: Mapping[str, str | None], message: str) -> str:
        """Commit files by their paths in the whole repository; None removes one."""
        for name, text in files.items():
            path = self.work / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()

    def pushes(self, files: Mapping[str, str | None], message: str) -> str:
        """Push a commit to the other host, and have the controller look."""
        commit = self.commits(files, message)
        self.git("push", "--quiet", self.ssh_url, "HEAD:main")
        self.cluster.run("source", "sync")
        return commit

    def does(self, line: str) -> str:
        """Run a command, and wait until nothing is left to do."""
        names = {
            "ours": str(self.work / FOLDER),
            "folder": str(self.folder),
            "head": self.own("log", "-1", "--format=%h", "main", "--", FOLDER),
        }
        done = self.cluster.run(*(word.format(**names) for word in line.split(" ")))
        self.cluster.wait_settled()
        return done.stdout + done.stderr

    def operations(self) -> str:
        items = self.cluster.json("get", "operations")["items"]
        return " ".join(sorted(each["metadata"]["name"] for each in items))

    def own(self, *words: str) -> str:
        """Ask git about the home's repository."""
        command = ["git", f"--git-dir={self.cluster.home / 'cluster.git'}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    def follows(self, *settings: str) -> None:
        host = self.hosts.hosts[0]
        ssh = ("--ssh-key", str(host.key), "--known-hosts", str(self.known_hosts))
        self.cluster.run("source", "set", self.ssh_url, *ssh, *settings)

    def objects(self) -> set[str]:
        found = yaml.safe_load_all(self.cluster.ask("get", "all", "-o", "yaml"))
        return {f"{each['kind']}/{each['metadata']['name']}" for body in found for each in body["items"]}

    def answers(self) -> bool:
        """Return true once the gateway does."""
        (gateway,) = self.cluster.json("get", "gateways")["items"]
        return any(
            (each["type"], each["status"]) == ("Ready", "True") for each in gateway["status"]["conditions"]
        )

    def there(self) -> None:
        """Wait until a controller answers that has read the manifests."""
        self.cluster.wait("the controller", lambda: self.status()["revision"] not in ("", EMPTY))
        self.cluster.wait_settled()

    def status(self) -> dict[str, Any]:
        return dict(ask(self.cluster.home / "controller.sock", ShowStatus()))


@pytest.fixture(scope="module")
def team() -> Iterator[Lab]:
    with team_of("git-host", Lab) as made:
        editor = made.folder / "editor"
        editor.write_text("#!/bin/sh\nsed -i 's/maxBatch: .*/maxBatch: 12/' \"$1\"\n")
        editor.chmod(0o755)
        kept = made.folder / "kept"  # has the copy of a change that is refused
        kept.mkdir()
        made.cluster.environment |= {
            "EDITOR": str(editor), "KUBE_EDITOR": str(editor), "TMPDIR": str(kept),
        }  # fmt: skip
        (made.folder / "hub.yaml").write_text(HUB)
        (made.work / "link.yaml").symlink_to("nodes.yaml")
        made.commits({**BESIDE, **{f"{FOLDER}/{name}": text for name, text in OURS.items()}}, "Begin")
        made.git("push", "--quiet", made.ssh_url, "HEAD:main")
        made.follows("--path", FOLDER)
        made.cluster.start("--models", str(ROOT / "examples" / "models"), "--any-port")
        made.there()
        yield made


def test_every_command_is_tried_here_or_needs_no_home() -> None:
    ends = {path for path, each in COMMANDS.items() if not isinstance(each.command, click.Group)}
    tried = APART | set(READS) | set(OPERATIONS) | set(WISHES)
    assert {path for path in ends if path.split()[0] not in OF_NO_HOME} == tried


def test_only_a_push_of_the_folder_changes_something(team: Lab) -> None:
    assert team.objects() == NAMES
    changed = team.pushes({f"{FOLDER}/tiny/deployment.yaml": deployment("tiny", 1, batch=8)}, "Smaller")
    team.cluster.wait_settled()
    assert team.status()["revision"] == changed
    wished = team.cluster.json("get", "deployment", "tiny")
    assert wished["spec"]["serving"]["maxBatch"] == 8
    team.cluster.wait("the gateway", lambda: team.answers())
    last, ranks = team.cluster.last_event(), team.cluster.ranks()
    beside = {
        f"{FOLDER}.yaml": node("elsewhere"),
        "charts/other.yaml": "a: [",
        "clusters/b/nodes.yaml": node("node-b"),
        "clusters/b/tiny/deployment.yaml": None,
    }
    other = team.pushes(beside, "Not ours")
    team.until(other)
    assert team.cluster.settled()
    told = [(each["reason"], each["revision"]) for each in team.cluster.events() if each["id"] > last]
    assert told == [("RevisionApplied", other)]
    assert [each["metadata"] for each in team.cluster.ranks()] == [each["metadata"] for each in ranks]
    assert team.cluster.json("get", "deployment", "tiny")["spec"] == wished["spec"]
    subjects = [each["subject"] for each in team.cluster.json("history")["items"]]
    assert subjects == ["Smaller", "Begin"]


@pytest.mark.parametrize("path", READS)
def test_commands_that_read_show_the_folder_and_nothing_beside_it(path: str, team: Lab) -> None:
    for line in READS[path]:
        assert "elsewhere" not in team.does(line)


def test_a_backup_has_the_folder(team: Lab) -> None:
    other = replace(team.cluster, home=team.folder / "other")
    team.cluster.run("backup", "-o", str(team.folder / "kept.tar.gz"))
    other.run("restore", str(team.folder / "kept.tar.gz"))
    assert f"Path:       {FOLDER}" in other.run("source", "show").stdout
    assert other.run("diff", "-f", str(team.work / FOLDER)).stdout == ""


def test_operations_apply_to_the_folder_and_move_no_wish(team: Lab) -> None:
    before = team.own("rev-parse", "main")
    for line, there in OPERATIONS.values():
        team.does(line) if line != "stop" else team.cluster.run(line)
        assert team.operations() == there, line
    traced = team.cluster.ask("trace", "deployment/tiny")
    assert f"{FOLDER}/tiny/deployment.yaml" in traced
    assert "operation scale replicas 2" in traced
    assert len(team.cluster.ranks()) == 2
    team.does(f"undo {there}")
    assert team.own("rev-parse", "main") == before
    assert team.objects() == NAMES


def test_the_folder_counts_after_the_controller_and_after_everything_was_killed(team: Lab) -> None:
    cluster = team.cluster
    ranks = [each["metadata"] for each in cluster.ranks()]
    (before,) = cluster.controller()
    os.kill(before, signal.SIGKILL)
    cluster.wait("another controller", lambda: cluster.controller() not in ([], [before]))
    team.there()
    assert team.objects() == NAMES
    assert cluster.up is not None
    cluster.up.kill()
    cluster.up.wait(30)
    for pid in (*cluster.controller(), *cluster.gateway()):
        os.kill(pid, signal.SIGKILL)
    cluster.start("--any-port")
    cluster.wait("another controller", lambda: cluster.controller() != [])
    team.there()
    assert team.objects() == NAMES
    assert [each["metadata"] for each in cluster.ranks()] == ranks


def test_what_removes_much_of_the_folder_waits_for_an_approval(team: Lab) -> None:
    removed = {f"{FOLDER}/node-b.yaml": None, f"{FOLDER}/window.yaml": None}
    held = team.pushes(removed, "Remove much")
    team.cluster.wait("the hold", lambda: team.status()["held"])
    hold = team.status()["held"]
    assert (hold["revision"], hold["removes"]) == (held, ["node/node-b", "syncwindow/nights"])
    assert team.objects() == NAMES
    team.does(f"approve {held[:10]}")
    team.until(held)
    team.cluster.wait_settled()
    assert team.objects() == NAMES - {"Node/node-b", "SyncWindow/nights"}
    team.git("revert", "--no-edit", "HEAD")
    team.git("push", "--quiet", team.ssh_url, "HEAD:main")
    team.does("source sync")
    team.cluster.wait("the node", lambda: team.objects() == NAMES)


def test_another_folder_that_removes_what_serves_is_held_also_after_a_restart(team: Lab) -> None:
    cluster, ranks = team.cluster, [each["metadata"] for each in team.cluster.ranks()]
    cluster.run("source", "set", "--path", "clusters/b")
    cluster.wait("the other folder", lambda: team.status()["held"])
    (before,) = cluster.controller()
    os.kill(before, signal.SIGKILL)
    cluster.wait("another controller", lambda: cluster.controller() not in ([], [before]))
    cluster.wait("the other folder", lambda: team.status()["held"])
    assert team.objects() == NAMES
    cluster.run("source", "set", "--path", FOLDER)
    cluster.wait("the folder", lambda: team.status()["held"] is None)
    cluster.wait_settled()
    assert [each["metadata"] for each in cluster.ranks()] == ranks


def test_over_https_it_is_the_same_folder(team: Lab) -> None:
    with https_served(team):
        team.cluster.run("source", "set", team.https_url, "--ca-file", str(team.folder / "tls.pem"))
        commit = team.commits({f"{FOLDER}/tiny/deployment.yaml": deployment("tiny", 1, batch=4)}, "Less")
        team.git("push", "--quiet", team.https_url, "HEAD:main")
        team.does("source sync")
        team.until(commit)
        team.cluster.wait_settled()
    assert team.cluster.json("get", "deployment", "tiny")["spec"]["serving"]["maxBatch"] == 4
    assert team.objects() == NAMES
    team.follows()


def test_wishes_are_refused_while_it_is_followed_and_committed_to_the_folder_afterwards(team: Lab) -> None:
    cluster, before = team.cluster, team.own("rev-parse", "main")
    for words in (("delete", "node/node-b"), ("label", "node/node-a", "room=c"), ("edit", "deployment/tiny")):
        refused = cluster.run(*words, check=False)
        assert (refused.returncode, f"the truth is at {team.ssh_url}" in refused.stderr) == (1, True), words
    team.does("source unset")
    for lines in WISHES.values():
        for line in lines:
            team.does(line)
    changed = team.own("diff", "--name-only", before, "main").splitlines()
    assert {each for each in changed if not each.startswith(f"{FOLDER}/")} == set()
    assert len(team.own("rev-list", f"{before}..main").splitlines()) == len(WISHES)
    assert team.status()["revision"] == team.own("rev-parse", "main")
    team.git("fetch", "--quiet", str(cluster.home / "cluster.git"), "main")
    team.git("reset", "--quiet", "--hard", "FETCH_HEAD")
    team.git("push", "--quiet", team.ssh_url, "HEAD:main")
    team.follows()
    team.does("source sync")
    assert f"Path:       {FOLDER}" in cluster.ask("source", "show")
    assert team.objects() == NAMES | {"ApiKey/ada"}
