"""Transports: how messages reach neighbours."""
