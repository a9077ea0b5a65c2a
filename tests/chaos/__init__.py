"""Chaos on real processes: emulated Macs under load, broken at random. ``make chaos MINUTES=10``."""
