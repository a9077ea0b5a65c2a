"""Rank 0's launcher and the other launchers of a job: the control channel.

Every other launcher opens a TLS connection to that of rank 0, as the ranks of a model do. A launcher that has the
group's certificate and key belongs to the group. The launchers start their programs together, and hear how the others end. For an MPI program
rank 0's launcher asks the others to run ``orted``, so that ``mpirun`` needs neither SSH nor a key.
"""

from __future__ import annotations

from .codec import message, vocabulary


@message("meet")
class Meet:
    """The first frame of a launcher."""

    rank: int
    epoch: int


@message("begin")
class Begin:
    """Rank 0's answer once all are there: start the program."""


@message("over")
class Over:
    """The program of a rank has ended. Rank 0 passes on what is not ``ok``."""

    rank: int
    ok: bool
    """True for exit status 0: the others go on."""
    text: str = ""
    """Its end, for people."""


@message("runRemote")
class RunRemote:
    """Run a command of the shell in place of the program. One at a time."""

    command: str


@message("endRemote")
class EndRemote:
    """End what ``RunRemote`` has started, as the program would be ended."""


@message("remoteOver")
class RemoteOver:
    """The answer to ``RunRemote``, once the command has ended."""

    status: int
    """As a shell shows it: 128 and the number of a signal that killed it."""


LEADER_RECEIVES = vocabulary(Meet, Over, RemoteOver)
MEMBER_RECEIVES = vocabulary(Begin, Over, RunRemote, EndRemote)
