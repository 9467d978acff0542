"""Federations: members, links, keys and the files that describe them."""
