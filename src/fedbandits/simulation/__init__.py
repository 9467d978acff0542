"""Simulations as values: what is asked for, validated and described, before anything is played."""
