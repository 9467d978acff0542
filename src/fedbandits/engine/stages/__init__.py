"""Stages of a round: losses, exchange of messages, and conditions that wrap them."""
