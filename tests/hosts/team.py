"""People who push to a repository on another host, over real SSH or HTTPS, and a cluster here that follows it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reconciler.cli.core.client import Client
from reconciler.wire.admin import ShowSource, ShowStatus
from tests.certificates import made as certificate_of
from tests.e2e.cluster import ROOT, Cluster

from .network import Network, network

HTTPS_PORT = 8443


@dataclass
class Team:
    """The people, and the cluster."""

    hosts: Network
    cluster: Cluster
    folder: Path

    @property
    def work(self) -> Path:
        """Their clone."""
        return self.folder / "work"

    @property
    def place(self) -> Path:
        return self.hosts.hosts[0].folder / "served" / "cluster.git"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def ssh_url(self) -> str:
        host = self.hosts.hosts[0]
        return f"ssh://{host.user}@{host.address}{self.place}"

    @property
    def https_url(self) -> str:
        return f"https://{self.hosts.hosts[0].address}:{HTTPS_PORT}/cluster.git"

    def git(self, *words: str, check: bool = True) -> str:
        host = self.hosts.hosts[0]
        ssh = f"ssh -F /dev/null -i {host.key} -o UserKnownHostsFile={self.known_hosts} -o StrictHostKeyChecking=yes"
        done = subprocess.run(
            ["git", "-C", str(self.work), *words],
            env={**os.environ, "GIT_SSH_COMMAND": ssh, "GIT_SSL_CAINFO": str(self.folder / "tls.pem")},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout
        return done.stdout

    def until(self, commit: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        with Client(self.cluster.home / "controller.sock") as client:
            while client.ask(ShowStatus())["revision"] != commit:
                assert time.monotonic() < deadline, self.cluster.diagnostics()
                time.sleep(0.01)

    def source(self) -> dict[str, object]:
        with Client(self.cluster.home / "controller.sock") as client:
            return dict(client.ask(ShowSource()))


T = TypeVar("T", bound=Team)


@contextlib.contextmanager
def team_of(name: str, kind: type[T]) -> Iterator[T]:
    """A team whose repository is on a host of this name, and a home that follows nothing yet. All ends with the block."""
    with network(name) as hosts:
        folder, host = hosts.folder / "team", hosts.hosts[0]
        folder.mkdir()
        cluster = Cluster(folder / "home", ROOT, {"HOME": str(hosts.person), "SSH_AUTH_SOCK": ""})
        made = kind(hosts, cluster, folder)
        made.place.parent.mkdir()
        subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", made.place], check=True)
        subprocess.run(["git", f"--git-dir={made.place}", "config", "http.receivepack", "true"], check=True)
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", made.work], check=True)
        for setting, value in (("user.name", "bea"), ("user.email", "bea@example.org")):
            made.git("config", setting, value)
        made.known_hosts.write_text(f"{host.address} {host.host_key}\n")
        try:
            yield made
            assert cluster.stop() == 0
        finally:
            cluster.kill_everything()
            shutil.rmtree(cluster.home, ignore_errors=True)


@contextlib.contextmanager
def https_served(team: Team) -> Iterator[None]:
    host = team.hosts.hosts[0]
    certificate, key = certificate_of((host.address,), addresses=(host.address,))
    (team.folder / "tls.pem").write_bytes(certificate)
    (team.folder / "tls.key").write_bytes(key)
    files = (str(team.folder / "tls.pem"), str(team.folder / "tls.key"))
    words = ["nsenter", "--target", str(host.pid), "--net", sys.executable, "-m", "tests.git_server"]
    serving = subprocess.Popen(
        [*words, str(team.place.parent), host.address, str(HTTPS_PORT), *files],
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(serving.pid, signal.SIGKILL)
        serving.wait(30)
