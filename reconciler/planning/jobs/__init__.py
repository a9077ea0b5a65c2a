"""Plans the runs of jobs. Start with ``runs.py``, which says when a run begins; ``ladder.py`` decides about one that has.

Nothing of a job is in the other rooms of planning but what all workloads share: memory, ports, transports, ends of ranks.
"""
