"""Facts of a running cluster in a file, so that a change can be planned where no controller runs. Pure.

``recorded.py`` records facts, and plans with them. ``privacy.py`` lists the texts that may leave the cluster.
"""
