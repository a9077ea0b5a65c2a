"""Emulated Macs: machines that answer over SSH as Macs do, the cables between them, and faults to rehearse with.

One process holds the state of all machines and cables, and decides the answers of their tools. The processes on an
emulated machine are real: agents, shims and ranks run on this host, and addresses mean its loopback.

=================  =================================================================================
module             purpose
=================  =================================================================================
``world``          PURE: machines, ports and cables, and their changes
``tools``          PURE: the answers of a machine's tools
``commands``       PURE: the commands of ``reconciler sandbox``
``cluster``        chooses the machines to emulate, and writes their manifests
``server``         the sandbox: machines, their SSH servers and the control socket
``control``        the control socket
``client``         the program behind every tool of a machine: it asks the sandbox
``places``         the folders of a machine, and ``processes`` its processes
``held``           processes that nothing ends
``daemons``        the services that launchd runs on a machine
``sshd``           the SSH server of a machine
``python``         the Python of a machine; ranks import ``emulated`` there
``verbs``          answers ranks: contexts of RDMA, the network, the GPU
``relays``         connections between ranks, with which the sandbox plays the cables
=================  =================================================================================
"""
