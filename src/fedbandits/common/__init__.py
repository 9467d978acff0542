"""What knows nothing of bandits: checks, randomness, files, descriptions, statistics, signals."""
