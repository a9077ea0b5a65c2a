"""Day zero: the preconditions of a Mac before it joins a cluster, and a file with the output of its tools.

One script of plain ``sh`` runs the probes, replaces identifying text, and writes the file. ``node examine`` runs the
same script over SSH or here, and judges the file. It can also judge a file later, on another machine.

===============  ================================================================================
file             purpose
===============  ================================================================================
``probing``      the probes before there is a node, and those that are left out
``script``       puts the script together: from the probes, the preconditions, and these two:
``examine.sh``   runs tools with time limits, and writes the file
``scrub.awk``    replaces names, serial numbers and addresses
``record``       the file as a value
``report``       the verdicts on one machine, from its file
===============  ================================================================================
"""
