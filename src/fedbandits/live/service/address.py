"""Addresses that a service listens on, and names of hosts."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple


class Address(NamedTuple):
    """A host and a port.

    Attributes:
        host: an IP address or a name, without brackets.
        port: 0 for any free port.
    """

    host: str
    port: int

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """Return the address that a text names.

    Example:
        >>> parse("localhost:8080"), parse("[::1]:0").local, parse("site3:8443").local
        (Address(host='127.0.0.1', port=8080), True, False)
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(
            f"an address is a host and a port, such as 127.0.0.1:8080 or [::1]:8080, not {text!r}"
        )
    # localhost usually has two addresses. With port 0 each would get a port of its own.
    return Address("127.0.0.1" if host == "localhost" else host, int(port))


def host_name(text: str) -> str:
    """Return a host as requests name it; raise ValueError if the text is not a host.

    Example:
        >>> host_name("Agent.example.org"), host_name("[2001:DB8::7]"), host_name("*.shops.example")
        ('agent.example.org', '2001:db8::7', '*.shops.example')
    """
    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        if re.fullmatch(r"(\*\.)?[\w-]+(\.[\w-]+)*", text, re.ASCII):
            return text.lower()
    raise ValueError(
        f"hosts: {text!r} is not a host; write a name or an IP address without scheme and port, "
        "such as agent.example.org, *.example.org or 192.0.2.7"
    )


def check_safe(address: Address, encrypted: bool) -> None:
    """Reject addresses that other machines can reach without TLS."""
    if not address.local and not encrypted:
        raise ValueError(
            f"other machines can reach {address}, and without TLS the network can read the token: "
            "give tls=(certificate, key), which `fedbandits live keys` makes "
            f"(in agent.toml: tls = true, under [service]), or listen on 127.0.0.1:{address.port}"
        )
