"""The agent, which runs on every node, and the shim beside each rank.

It uses Python 3.9 and the standard library only, because it is shipped as one file to machines without anything else.

==============  ==================================================================================
module          purpose
==============  ==================================================================================
``entry``       the command line: ``serve``, ``shim``, ``relay``, ``repair`` and ``spare``
``serving``     ``serve``: from the arguments to the end of an agent
``server``      the agent: answers controllers, refuses old fencing tokens, pushes changes
``host``        the machine as the agent uses it; ``local_host`` is the one that it runs on
``ranks``       the ranks of the node: shims, standby processes, output, leftovers
``weights``     weights and runtimes on the node: fetches, checks, removal
``repairs``     changes of the machine that undo themselves unless they are confirmed
``relay``       the command that the gateway's key may run over SSH
``system``      the operating system: processes, files, tools and sockets
==============  ==================================================================================
"""
