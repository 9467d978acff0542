"""Compiles and plays rounds. Everything that needs JAX at import time is in this folder."""
