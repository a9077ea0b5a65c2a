"""Emulated Macs: machines that answer over SSH as Macs do, the cables between them, and faults to rehearse with.

One process holds the state of all machines and cables, and decides what each of their tools answers. What runs on an
emulated machine is real: agents, shims and ranks are processes of this host, and addresses mean its loopback.

===============  =====================================================================================
module           what it is
===============  =====================================================================================
``state``        PURE: machines, ports and cables, and what follows of them
``changes``      PURE: what happens to them, and the way back
``macs``         PURE: Macs as they are sold, and cablings of several
===============  =====================================================================================
"""
