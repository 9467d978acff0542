"""What makes files of the package, and is no part of it."""
