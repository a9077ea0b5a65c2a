"""Forming a group: the control channel, and MLX's collectives. Start with ``control_channel.py``."""
