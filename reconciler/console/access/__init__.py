"""Access to the console, and the rights of each visitor. Other modules of the room need only ``visitor.py``."""
