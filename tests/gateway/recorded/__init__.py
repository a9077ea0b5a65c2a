"""What the gateway answers to a wide, fixed set of inputs, line by line in text files."""
