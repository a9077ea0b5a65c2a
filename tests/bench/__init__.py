"""How fast it is, measured beside a peer in the same run: ``make bench``. Nothing here is asserted.

One module a benchmark, each with ``measure(quick) -> Iterator[Figure]``. What they mean: docs/benchmarks.md.
"""
