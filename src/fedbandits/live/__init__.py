"""Agents that live apart: they choose, observe and gossip, and lose nothing."""
