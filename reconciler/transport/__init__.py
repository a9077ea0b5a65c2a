"""The single seam to other machines, and the client and server side of request and answer.

===============  =====================================================================
module           what it is
===============  =====================================================================
``bundle``       the agent's one file
``rpc``          requests and answers over a stream, for agents and for ``controller.sock``
``relay``        the gateway's way to ranks of other machines
``gateway_key``  its key, and the line that lets it in
``link``         a connection to an agent, and what every kind of node can do
``local``        a node on this machine
===============  =====================================================================
"""
