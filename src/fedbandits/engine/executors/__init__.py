"""Executors play a chunk of rounds: all agents at once, in tiles, or in kernels."""
