"""The commands, one module each, in folders by purpose. Start with ``read/get.py``."""
