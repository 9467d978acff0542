"""`python -m fedbandits`, the same as `fedbandits`."""

from fedbandits.cli.commands import app

app(prog_name="fedbandits")
