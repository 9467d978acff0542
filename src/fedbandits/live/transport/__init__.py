"""Transports: how messages travel between neighbours."""
