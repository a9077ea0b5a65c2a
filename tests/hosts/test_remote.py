"""The truth on another host: real git over SSH and over HTTPS, a webhook from there, and a cable that is pulled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.e2e.cluster import MODEL, deployment, node

from .team import Team, https_served, team_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.second_tier]

SECRET = "a secret that only two know"
PORT = 8437
INTERVAL = "60s"
SECONDS_MAX = 2.0
"""From the start of a push to the revision in force."""
BUSY_SECONDS_MAX = 15.0
"""The same where other tests run beside: less than a part of the interval."""
HOOK = """#!{python} -I
import hashlib, hmac, http.client, json, pathlib, sys
body = json.dumps({{"ref": "refs/heads/main", "after": sys.stdin.read().split()[1]}}).encode()
signature = "sha256=" + hmac.new({secret!r}.encode(), body, hashlib.sha256).hexdigest()
pathlib.Path({kept!r}).write_text(json.dumps([body.decode(), signature]))
connection = http.client.HTTPConnection({host!r}, {port}, timeout=5)
connection.request("POST", "/hooks/git", body, {{"X-Hub-Signature-256": signature}})
print("webhook:", connection.getresponse().status)
"""


def manifest(address: str, number: int) -> str:
    return f"""apiVersion: reconciler/v1alpha1
kind: Gateway
metadata:
  name: main
  annotations: {{change: "{number}"}}
spec:
  listen: {address}:{PORT}
  auth: {{mode: keys}}
---
{node("here")}---
{MODEL}---
{deployment("tiny", 1)}"""


@dataclass
class Pushing(Team):
    """A team that changes an annotation, again and again."""

    number: int = 0
    took: list[float] = field(default_factory=list)

    def commit(self) -> str:
        self.number += 1
        (self.work / "gateway.yaml").write_text(manifest(self.hosts.here, self.number))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"change {self.number}")
        return self.git("rev-parse", "HEAD").strip()

    def push(self, url: str) -> str:
        """Push a change, and note how long it took from the start of the push until it is in force."""
        commit = self.commit()
        began = time.monotonic()
        self.git("push", "--quiet", url, "HEAD:main")
        self.until(commit)
        self.took.append(time.monotonic() - began)
        return commit

    def hooked(self, wanted: bool) -> None:
        """Whether the other host says that something was pushed."""
        hook = self.place / "hooks" / "post-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.unlink(missing_ok=True)
        if wanted:
            values = {
                "python": sys.executable,
                "secret": SECRET,
                "kept": str(self.folder / "last"),
                "host": self.hosts.here,
                "port": PORT,
            }
            hook.write_text(HOOK.format(**values))
            hook.chmod(0o755)

    def told_again(self) -> int:
        """Send the last message of the webhook once more, from the other host."""
        body, signature = json.loads((self.folder / "last").read_text())
        program = (
            "import http.client, sys; c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=5);"
            "c.request('POST', '/hooks/git', sys.argv[3].encode(), {'X-Hub-Signature-256': sys.argv[4], 'X-GitHub-Delivery': 'new'});"
            "print(c.getresponse().status)"
        )
        words = ["nsenter", "--target", str(self.hosts.hosts[0].pid), "--net", sys.executable, "-c", program]
        done = subprocess.run(
            [*words, self.hosts.here, str(PORT), body, signature],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        return int(done.stdout)


@pytest.fixture(scope="module")
def team() -> Iterator[Pushing]:
    with team_of("git-host", Pushing) as made:
        cluster, key = made.cluster, made.hosts.hosts[0].key
        (made.folder / "secret").write_text(SECRET)
        first = made.commit()
        made.git("push", "--quiet", made.ssh_url, "HEAD:main")
        cluster.run(
            "source", "set", made.ssh_url, "--ssh-key", str(key), "--interval", INTERVAL,
            "--known-hosts", str(made.known_hosts), "--webhook-secret-file", str(made.folder / "secret"),
        )  # fmt: skip
        cluster.start()
        cluster.wait("the controller", (cluster.home / "controller.sock").exists)
        made.until(first)
        cluster.wait("the gateway", lambda: (cluster.home / "gateway.json").exists())
        made.hooked(True)
        yield made


def worst(took: list[float]) -> float:
    """The 99th percentile: of up to a hundred, the longest."""
    return max(took)


def shown(took: list[float], what: str) -> None:
    ordered = sorted(took)
    p50, p99 = ordered[len(took) // 2], ordered[max(0, len(took) * 99 // 100 - 1)]
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"{what}: {len(took)} pushes, p50 {p50:.2f} s, p99 {p99:.2f} s, longest {ordered[-1]:.2f} s; load {load}"
    )


def test_a_push_there_is_in_force_here_long_before_the_next_look(team: Pushing) -> None:
    team.took.clear()
    for _ in range(5):
        team.push(team.ssh_url)
    shown(team.took, "over SSH")
    assert worst(team.took) < BUSY_SECONDS_MAX
    assert team.told_again() == 202
    assert team.told_again() == 202


@pytest.mark.nightly
def test_with_the_webhook_lost_the_next_look_finds_it(team: Pushing) -> None:
    team.hooked(False)
    team.cluster.run("source", "set", "--interval", "5s")
    team.push(team.ssh_url)
    team.cluster.run("source", "set", "--interval", INTERVAL)
    team.hooked(True)
    assert team.took[-1] < BUSY_SECONDS_MAX


def test_operations_here_and_pushes_there_do_not_meet(team: Pushing) -> None:
    for command in ("cordon", "uncordon"):
        operation = team.cluster.background(command, "here")
        team.push(team.ssh_url)
        _, told = operation.communicate(timeout=60)
        assert operation.returncode == 0, told
    refused = team.cluster.run("delete", "gateway", "main", check=False)
    assert refused.returncode == 1
    assert f"the truth is at {team.ssh_url}" in refused.stderr


@pytest.mark.nightly
def test_a_stop_and_a_scale_here_and_pushes_there_do_not_meet(team: Pushing) -> None:
    for words in (
        ("scale", "tiny", "--replicas=3"),
        ("stop", "--reason", "the air conditioning"),
        ("scale", "tiny", "--replicas=2"),
        ("start",),
    ):
        operation = team.cluster.background(*words)
        for _ in range(3):
            last = team.push(team.ssh_url)
        said, told = operation.communicate(timeout=60)
        assert operation.returncode == 0, (words, said, told)
        assert all("so this is an operation" in line for line in told.splitlines() if "note: " in line), told
    wished = team.cluster.json("get", "deployment", "tiny")
    assert wished["spec"]["replicas"] == 2, "what was asked for here"
    assert [each["standing"] for each in wished["status"]["operations"]] == ["InForce"]
    assert team.git("ls-remote", team.ssh_url, "main").split()[0] == last, "nothing of it went there"
    told_wrong = {"RevisionRejected", "OperationsRejected", "SourceUnusable"}
    assert not told_wrong & {each["reason"] for each in team.cluster.events()}
    team.cluster.run("undo", "scale.modeldeployment.tiny")


def test_a_rewound_branch_changes_nothing_here(team: Pushing) -> None:
    kept = team.push(team.ssh_url)
    team.git("reset", "--quiet", "--hard", "HEAD~1")
    team.commit()
    team.git("push", "--quiet", "--force", team.ssh_url, "HEAD:main")
    refused = team.cluster.run("source", "sync", check=False)
    assert refused.returncode == 1
    assert f"does not have 1 commit up to {kept[:10]}" in refused.stderr
    team.git("reset", "--quiet", "--hard", kept)
    team.git("push", "--quiet", "--force", team.ssh_url, "HEAD:main")
    team.until(kept)
    assert team.cluster.run("source", "sync").returncode == 0


@pytest.mark.nightly
def test_while_the_remote_is_away_nothing_happens_and_it_is_said(team: Pushing) -> None:
    kept = team.push(team.ssh_url)
    host = team.hosts.hosts[0]
    team.hosts.cut(host)
    try:
        team.cluster.run("source", "sync", "--timeout", "1s", check=False)
        team.cluster.wait("it to be away", lambda: team.source()["awaySince"], 60)
        assert "Away since: " in team.cluster.ask("source", "show")
        team.until(kept)
    finally:
        team.hosts.cut(host, up=True)
    team.push(team.ssh_url)
    team.cluster.wait("it to be back", lambda: team.source()["awaySince"] is None, 60)


@pytest.mark.nightly
def test_fifty_pushes_over_ssh_and_fifty_over_https(team: Pushing) -> None:
    team.took.clear()
    for _ in range(50):
        team.push(team.ssh_url)
    shown(team.took, "over SSH")
    over_ssh = worst(team.took)
    with https_served(team):
        team.cluster.run("source", "set", team.https_url, "--ca-file", str(team.folder / "tls.pem"))
        team.cluster.run("source", "sync")
        team.took.clear()
        for _ in range(50):
            team.push(team.https_url)
        shown(team.took, "over HTTPS")
    assert max(over_ssh, worst(team.took)) < SECONDS_MAX
