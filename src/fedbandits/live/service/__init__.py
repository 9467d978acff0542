"""The HTTP service of a live agent, for applications in any language.

async with agent:
    async with await serve(agent, "127.0.0.1:8080", token_file="shop3.token") as service:
        ...
"""

from .server import Service, serve

__all__ = ["Service", "serve"]
