"""The protocol between controller, agent, shim, gateway and rank.

Standard library only and Python 3.9, because the agent, which is shipped to bare machines, speaks it.
Every conversation is a sequence of frames (``frames``), every frame a JSON object, every object one of
the frozen messages of this package (``codec``). Each connection opens with ``Hello``; a side speaks its
own version and the one before.

===================  ==================================================================
module               conversation
===================  ==================================================================
``launch``           the controller's description of a rank, and the rank's progress
``node``             controller and agent; agent and shim
``generation``       gateway and rank 0
``measuring``        controller and rank 0: speed of ranks and links
``tools``            controller and agent: looking at the machine
``repair``           controller and agent: changing the machine's settings
``weights``          agent and fetcher: weights that a node fetches
``group``            rank 0 and the other ranks of its group
``gang``             the launchers of a job's ranks
``admin``            command line and controller
``answers``          the types of the controller's answers to command line and console
``objects``          the types of the objects in these answers
``handover``         a gateway and its successor
``paths``            the sockets of a node
``file_identity``    whether a lock, socket or folder was replaced
``job_user``         starting a process as the user of jobs
``log_lines``        the beginning of log lines
``guarded_folders``  folders that macOS guards, and volumes that may be absent
``shortage``         the resource that a failed system call lacked
``supervision``      the acts of `up` on services, for the controller
===================  ==================================================================
"""

from __future__ import annotations

VERSION = 1
SPOKEN = (1,)
"""Versions that this side understands, newest first: N and, once there is one, N-1."""
