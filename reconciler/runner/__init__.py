"""The rank process: one MLX process of a group, started by its shim as ``python -m reconciler.runner``.

The only room with mlx and mlx_lm; of the rest of the house it knows ``wire`` alone.

================  =======================================================================
module            purpose
================  =======================================================================
``rank``          the life of a rank, phase by phase: start here
``standby``       a process that has finished its imports and waits to become a rank
``process``       the rank as a process: configuration, progress, supervision, end
``group``         forming a group: the control channel and MLX's collectives
``model``         checks, loads and runs the weights with ``mlx_lm``
``decode``        the decode loop: rank 0 leads each step, the other ranks follow
``requests``      rank 0's Unix socket, and the prompt of each request
``examination``   a program of its own: what the installed mlx-lm can do with a model
``fast_import``   imports ``transformers`` in half the time
``descriptors``   keeps the limit of open files, which ``mlx_lm`` would lower
``on_import``     what both are made of: something done around the import of a module
================  =======================================================================
"""

from .descriptors import keep_limit
from .fast_import import quicken

keep_limit()
quicken()
