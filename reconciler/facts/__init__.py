"""Facts of a running cluster in a file, so that a change can be planned where no controller runs. Pure.

``recorded.py`` says what is recorded, and plans with it. ``privacy.py`` says which texts may leave the cluster.
"""
