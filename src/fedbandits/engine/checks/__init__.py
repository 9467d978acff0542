"""Checks of problems and algorithms that need JAX."""
