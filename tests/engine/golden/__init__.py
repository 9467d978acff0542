"""Golden programs: the lowered text of many compiled simulations, pinned by digest."""
