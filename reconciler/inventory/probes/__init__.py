"""Probes of a Mac: each is a command for one of its tools, and a pure parser.

This package chooses the commands and parses their output. The agent runs them, one at a time.

===============  ====================================================================
module           purpose
===============  ====================================================================
``probe``        a probe, and an unknown fact
``table``        all probes, in the order in which they run
``schedule``     when each probe runs on which machine
``machine``      which fact comes from which probe
``cable_ends``   where cables lead, from the facts of all machines
``system``       system, memory, disk
``engine``       the MLX of the ranks
``verbs``        RDMA
``thunderbolt``  receptacles
``network``      interfaces
``power``        sleep, watts, heat
``upkeep``       firewall, updates, index, backups
``management``   disk encryption, enrolment, launchd, reports, processes
===============  ====================================================================
"""

from .schedule import Probes

__all__ = ["Probes"]
