"""Rehearsals: live agents on a network and disks in memory, under a virtual clock."""
