"""Makes the data behind `fb.problems.cdn()`."""
