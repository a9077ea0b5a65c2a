"""Day zero: what must hold of a Mac before it joins a cluster, and a file of what its tools print.

One script of plain ``sh`` runs the probes, replaces what identifies the machine, and writes the file. ``node examine``
runs the same script over SSH or here, and judges the file; so it can do on any other machine, later.

===============  ================================================================================
file             purpose
===============  ================================================================================
``probing``      which probes are run before there is a node, and which are left out, and why
``script``       puts the script together: from the probes, the preconditions, and these two:
``examine.sh``   runs tools with time limits, and writes the file
``scrub.awk``    replaces names, serial numbers and addresses
``record``       the file as a value
``report``       the verdicts on one machine, from its file
===============  ================================================================================
"""
