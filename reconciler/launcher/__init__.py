"""The process of a job's rank, started by its shim as ``python -m reconciler.launcher``.

Of the other rooms it imports only ``wire``. Python 3.9, standard library. It runs one program: it makes a working
directory, meets the launchers of the other ranks, starts the program when all are there, and ends like the program.
Start with ``launcher``.

===============  =====================================================================
module           purpose
===============  =====================================================================
``launcher``     one rank, from its configuration to its end
``config``       reads and checks ``config.json``
``place``        the folder of the working directory
``environment``  pure: the variables of the program, and the files that they name
``keeping``      the launcher's side of the keeper
``keeper``       the parent of the program, as the user of the job; imports nothing
``gang``         the launchers of a group: meeting, and hearing how the others end
``mpi``          pure: the command of ``mpirun``
``remote``       runs in place of SSH, started by ``mpirun``; imports nothing
``calls``        the other end of ``remote``
``progress``     the progress pipe
``ending``       the ends of ranks
===============  =====================================================================
"""
