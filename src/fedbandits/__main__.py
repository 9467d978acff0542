"""`python -m fedbandits`, the same as `fedbandits`."""

from .cli import app

app(prog_name="fedbandits")
