"""MPI programs: `mpirun` on rank 0, and `orted` on the other machines without SSH."""

from __future__ import annotations

import base64
import functools
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.wire.launch import ExitCode, JobFile, Phase
from tests.launcher.ranks import Launchers, Started, config, mpi, pids, until, wait_until_gone
from tests.needs import needing
from tests.ports import free_ports

pytestmark = [
    pytest.mark.processes,
    pytest.mark.needs("mpirun"),
]
SAY = ("sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE has $TOKEN")


def gang(launchers: Launchers, *command: str, **given: object) -> list[Started]:
    """Two ranks on loopback."""
    ports = free_ports(3)
    addresses = [f"127.0.0.1:{port}" for port in ports[1:]]
    of = mpi(command, **given)  # type: ignore[arg-type]
    return [launchers.start(config(of, rank, addresses, f"127.0.0.1:{ports[0]}")) for rank in range(2)]


def test_rank_0_starts_all_processes_of_one_machine(launchers: Launchers) -> None:
    ranks = gang(launchers, *SAY, secrets={"TOKEN": "s3cret"}, processes=2)

    assert [rank.end() for rank in ranks] == [0, 0], ranks[0].text
    assert sorted(ranks[0].text.splitlines()) == [f"rank {rank} of 4 has s3cret" for rank in range(4)]
    assert ranks[1].phases() == [Phase.RENDEZVOUS, Phase.READY, Phase.READY]


def test_the_status_of_mpirun_is_that_of_rank_0(launchers: Launchers) -> None:
    ranks = gang(launchers, "sh", "-c", "exit 7")

    assert [rank.end() for rank in ranks] == [7, ExitCode.PEER_LOST]
    assert ranks[0].program


def test_all_processes_end_when_rank_0_is_asked_to_end(launchers: Launchers) -> None:
    ranks = gang(launchers, "sh", "-c", "echo up; exec sleep 600")
    ranks[0].wait_for("up\nup")

    ranks[0].terminate()

    assert ranks[0].end() != 0
    assert ranks[1].end() == ExitCode.PEER_LOST


@pytest.mark.needs("hpcc")
def test_the_hpc_challenge_runs(launchers: Launchers) -> None:
    given = base64.b64encode(HPCC.encode()).decode()
    ranks = gang(launchers, "hpcc", files=(JobFile("hpccinf.txt", given),))

    assert [rank.end() for rank in ranks] == [0, 0], ranks[0].text
    assert "Success=1\n" in (ranks[0].work / "hpccoutf.txt").read_text()


HPCC = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
200          Ns
1            # of NBs
40           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
1            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0                               Number of additional problem sizes for PTRANS
1200 10000 30000                values of N
0                               number of additional blocking sizes for PTRANS
40 9 8 13 13 20 16 32 64        values of NB
"""


@pytest.fixture
@needing("ip", "namespaces")
def machines() -> Iterator[list[tuple[str, ...]]]:
    """Two networks with a cable, each with a name of its own: the words that run a command in each."""
    held = [
        subprocess.Popen(["unshare", "--net", "--uts", "sleep", "1000"], start_new_session=True)
        for _ in range(2)
    ]
    try:
        words: list[tuple[str, ...]] = [
            ("nsenter", "--target", str(each.pid), "--net", "--uts") for each in held
        ]
        own = Path("/proc/self/ns/uts").readlink()
        until(lambda: all(Path(f"/proc/{each.pid}/ns/uts").readlink() != own for each in held))
        run = functools.partial(subprocess.run, check=True)
        cable = (
            "ip",
            "link",
            "add",
            "cable",
            "type",
            "veth",
            "peer",
            "name",
            "cable",
            "netns",
            str(held[1].pid),
        )
        run([*words[0], *cable])
        for number, word in enumerate(words):
            run([*word, "hostname", f"machine-{number}"])
            run([*word, "ip", "address", "add", f"10.99.7.{number + 1}/24", "dev", "cable"])
            for link in ("lo", "cable"):
                run([*word, "ip", "link", "set", link, "up"])
        yield words
    finally:
        for each in held:
            each.kill()
            each.wait()


def spread(
    launchers: Launchers, machines: list[tuple[str, ...]], *command: str, **given: object
) -> list[Started]:
    """One rank on each machine."""
    addresses = ["10.99.7.1:7001", "10.99.7.2:7002"]
    of = mpi(command, **given)  # type: ignore[arg-type]
    return [
        launchers.start(config(of, rank, addresses, "10.99.7.1:7000"), prefix=machines[rank])
        for rank in range(2)
    ]


def test_processes_run_on_all_machines_without_ssh(
    launchers: Launchers, machines: list[tuple[str, ...]]
) -> None:
    say = "echo $OMPI_COMM_WORLD_RANK on $(hostname) has $TOKEN"
    ranks = spread(launchers, machines, "sh", "-c", say, secrets={"TOKEN": "s3cret"}, processes=2)

    assert [rank.end() for rank in ranks] == [0, 0], [rank.text for rank in ranks]
    # Open MPI warns where the process that it starts is another program before it has a group of its own.
    said = [line for line in ranks[0].text.splitlines() if "plm:rsh: Warning: setpgid" not in line]
    assert sorted(said) == [f"{number} on machine-{number // 2} has s3cret" for number in range(4)]


@pytest.mark.parametrize("how", ["rank 0 is asked to end", "rank 1 is killed", "rank 0 is killed"])
def test_all_processes_of_all_machines_end_together(
    launchers: Launchers, machines: list[tuple[str, ...]], how: str
) -> None:
    ranks = spread(launchers, machines, "sh", "-c", "echo $$; exec sleep 600", grace_seconds=2.0)
    until(lambda: len(list(pids(ranks[0].text))) == 2)

    if how == "rank 0 is asked to end":
        ranks[0].terminate()
    else:
        ranks[int("rank 1" in how)].process.kill()

    assert all(rank.end() for rank in ranks)
    for pid in pids(ranks[0].text):
        wait_until_gone(pid)


def test_nobody_without_the_word_runs_anything(launchers: Launchers, machines: list[tuple[str, ...]]) -> None:
    ranks = spread(launchers, machines, "sh", "-c", "echo up; exec sleep 600", grace_seconds=1.0)
    ranks[0].wait_for("up\nup")
    before = Path.cwd()
    os.chdir(ranks[0].directory)
    try:
        calls: tuple[object, ...] = (
            {"word": "guessed", "host": "10.99.7.2", "command": "touch /tmp/x"},
            [],
            "x",
        )
        for call in calls:
            with socket.socket(socket.AF_UNIX) as caller:
                caller.settimeout(10)
                caller.connect("calls")
                caller.sendall(json.dumps(call).encode() + b"\n")
                assert caller.recv(100) == b""
    finally:
        os.chdir(before)

    ranks[0].terminate()

    assert ranks[0].end() != 0
