"""Who may open the console, and what each may do there. Other modules of the room need ``visitor.py`` alone."""
