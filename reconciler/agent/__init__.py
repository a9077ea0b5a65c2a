"""What runs on every node: the agent, and one shim beside each rank.

Standard library only and Python 3.9, for it is shipped as one file to machines that have nothing else.

===============  ================================================================
module           what it is
===============  ================================================================
``entry``        the command line: ``serve``, ``shim`` and ``spare``
``server``       the agent: requests of controllers, fencing, pushes
``ranks``        the ranks of the node: start, adoption, stop, the death of shims
``shim``         parent of one rank: its output, its progress, its end
``child``        starting the rank's process
``spare``        a shim and its rank's process that wait for the next rank
``peer``         one framed connection
``directory``    what is on disk for one rank
``rank_log``     the bounded output of a rank
``process``      telling a process from a later one with the same number
``machine``      facts of the machine
``system``       which system it runs, and where its tools are
``weights``      facts of a model's files
``fetches``      fetchers of weights: start, progress, end
``kept``         weights that were fetched, and their end
``runtime``      versions in the interpreter of the ranks
``tools``        running the tools, to look at the machine for a controller
``files``        files that are whole or absent
===============  ================================================================
"""
