"""Weights of a model that says what a script wants: ``weights.py`` writes them, ``model_file.py`` is their code."""
