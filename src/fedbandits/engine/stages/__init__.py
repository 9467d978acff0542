"""Stages of a round: losses, exchange of messages, and conditions such as privacy and liars."""
