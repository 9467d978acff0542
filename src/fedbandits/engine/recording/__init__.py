"""Recording: curves, totals, snapshots and progress of a simulation."""
