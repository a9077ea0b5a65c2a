"""Bugs planted in the product, one at a time: a test that is worth its time fails with one of them.

Each is a place in the product and an operator on its syntax tree (``places``, ``operators``), so that renaming and
moving break none. ``groups`` names the catalogues, ``planting`` puts a bug into a copy of the product, ``judging`` runs
the tests that are to catch it, and ``python -m tests.mutants`` does so for all and prints which test caught which.
"""
