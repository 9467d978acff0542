"""Processes of members: at a site, and of a whole federation on one machine."""
