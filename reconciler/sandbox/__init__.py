"""Emulated Macs: machines that answer over SSH as Macs do, the cables between them, and faults to rehearse with.

One process holds the state of all machines and cables, and decides what each of their tools answers. What runs on an
emulated machine is real: agents, shims and ranks are processes of this host, and addresses mean its loopback.

=================  =================================================================================
module             what it is
=================  =================================================================================
``state``          PURE: machines, ports and cables, and what follows of them
``changes``        PURE: what happens to them, and the way back
``macs``           PURE: Macs as they are sold, and cablings of several
``mac_tools``      PURE: what the tools of a machine answer; ``tools_system``, ``tools_network``, ``tools_rdma``
``asked``          PURE: one run of a tool, and what it says
``preconditions``  PURE: what keeps JACCL from forming a group there, and where an address leads
``client``         what every tool on a machine is: it asks the sandbox
``control``        the socket on which the sandbox is asked
``verbs``          what ranks on them say and are told: contexts of RDMA, the network, the GPU
``relays``         connections between ranks, with which the sandbox plays the cables
``python``         what the Python of a machine holds, so that ranks believe in it (``emulated``)
=================  =================================================================================
"""
