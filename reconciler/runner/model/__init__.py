"""Loading a model and running it with mlx-lm. Start with ``loading.py``."""
