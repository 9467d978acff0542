"""How many requests are taken: of one address and of all, with the token and without.

Who shows the token has buckets of its own, so that no stranger uses up what the application needs.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

ADDRESSES = 1024
"""Of which a count is kept; beyond, the one that was seen first is forgotten."""


class Rate(NamedTuple):
    """Requests a second; as many at once if none came for a second.

    Attributes:
        each: of one address.
        all: of all together.
    """

    each: float
    all: float


class Bucket:
    """Fills with `rate` a second up to what a second brings; a request takes one."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._level = rate
        self._at = now

    def fill(self, now: float) -> bool:
        """Whether there is one left now."""
        self._level = min(self._rate, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level >= 1.0

    def take(self) -> None:
        """Take one."""
        self._level -= 1.0


class Buckets:
    """The buckets of one kind of client.

    Args:
        rate: of each and of all.
        now: in seconds.

    Example:
        >>> buckets = Buckets(Rate(each=2, all=3), now=0.0)
        >>> [buckets.take(client, 0.0) for client in ("a", "a", "a", "b", "b")]
        [True, True, False, True, False]
        >>> buckets.take("a", 0.5)
        True
    """

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._all = Bucket(rate.all, now)
        self._each: dict[str, Bucket] = {}

    def take(self, client: str, now: float) -> bool:
        """Whether one more of this client is within the limits; counts it if so."""
        bucket = self._each.get(client)
        if bucket is None:
            if len(self._each) >= ADDRESSES:
                del self._each[next(iter(self._each))]
            bucket = self._each[client] = Bucket(self._rate.each, now)
        if not (bucket.fill(now) and self._all.fill(now)):
            return False
        bucket.take()
        self._all.take()
        return True


def client_of(host: str) -> str:
    """Who is behind an address: in IPv6 whoever has the network, since they have all of it.

    Example:
        >>> client_of("192.0.2.7"), client_of("2001:db8::1") == client_of("2001:db8::2")
        ('192.0.2.7', True)
    """
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> 64:x}"
