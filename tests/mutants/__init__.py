"""Bugs planted in the product, one at a time: a test that is worth its time fails with one of them.

``catalogue``, ``handling`` and ``requests`` list them, ``planting`` puts one into a copy of the product and runs
the tests that are to catch it, ``python -m tests.mutants`` does so for all and prints which test caught which.
"""
