"""What a Mac's own tools say of it: a command and a pure parser each.

The agent runs the commands, one at a time; here they are chosen, and what they say is read.

==============  ====================================================================
module          what it is
==============  ====================================================================
``probe``       what a probe is, and what is not known
``table``       all of them, in the order in which they are asked
``asking``      how often, of whom
``machine``     which fact comes from which probe
``cabling``     where cables lead, of the facts of all machines
``system``      system, memory, disk
``verbs``       RDMA
``thunderbolt`` receptacles
``network``     interfaces
``power``       sleep, watts, heat
``keeping``     disk encryption, enrolment, launchd, reports, leftovers
==============  ====================================================================
"""

from .schedule import Probes

__all__ = ["Probes"]
