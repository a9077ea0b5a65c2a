"""The rank process: one MLX process of a group, started by its shim as ``python -m reconciler.runner``.

The only room with mlx and mlx_lm; of the rest of the house it knows ``wire`` alone.

================  =======================================================================
module            purpose
================  =======================================================================
``rank``          the life of a rank, phase by phase: a table of contents
``spare``         before it is a rank: imports everything, and waits to be told which one it is
``config``        reads and checks ``config.json``
``ending``        why a rank ends, as an exception that carries its exit status
``progress``      the progress pipe to the shim
``watch``         notices the end of the shim, of a peer, and of this rank's own welcome
``channel``       forms the control channel between rank 0 and the others
``ring``          MLX's collectives over TCP
``weights``       checks the files of a model before anything expensive is done with them
``adapter``       what generates of ``mlx_lm``, reduced to what a rank needs
``loading``       what loads of it; no other module but ``examination`` says ``mlx_lm``
``examination``   a program of its own: what the installed mlx-lm can do with a model
``shares``        what each rank of a group would hold of it
``quick``         has ``transformers`` imported in half the time
``sampling``      which token comes next, so that all ranks and all restarts agree on it
``batch``         one step of the batch, done alike on every rank
``leader``        rank 0's loop: admits requests, says each step, turns tokens into events
``follower``      the other ranks' loop
``inbox``         requests on their way from the socket to the leader's loop
``prompt``        a request as token ids, or the reason why it cannot be one
``answer``        tokens as text, reasoning, tool calls and the reason to finish
``server``        rank 0's Unix socket
================  =======================================================================
"""

from .fast_import import quicken

quicken()
