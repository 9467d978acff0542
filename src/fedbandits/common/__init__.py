"""Helpers that do not depend on bandits: checks, randomness, files, statistics, signals."""
