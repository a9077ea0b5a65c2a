"""Hours of agents' conversations on real ranks: whether memory stays flat. ``make soak HOURS=2``."""
