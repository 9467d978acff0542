"""Sweeps: many independent experiments from one file, on one machine or many; nothing is lost."""
