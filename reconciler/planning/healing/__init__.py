"""What is wrong and what helps: read ``table`` first, then ``sights``, which says how each class is seen."""
