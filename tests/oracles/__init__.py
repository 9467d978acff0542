"""Algorithms in plain NumPy, line by line as their papers write them."""
