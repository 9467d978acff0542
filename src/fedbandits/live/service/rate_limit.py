"""Limits on the requests per second of each address and of all addresses together.

Clients with and without the token have separate limits, so that strangers use up no requests of the
application.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

ADDRESSES = 1024
"""The largest number of addresses with a bucket; beyond it the oldest bucket is dropped."""


class RequestRate(NamedTuple):
    """Requests per second; after a second without requests as many may come at once.

    Attributes:
        each: of one address.
        all: of all addresses together.
    """

    each: float
    all: float


class TokenBucket:
    """A token bucket: it fills at `rate` per second up to `rate`, and a request takes one."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._level = rate
        self._at = now

    def fill(self, now: float) -> bool:
        """Fill the bucket; return whether a request can be taken."""
        self._level = min(self._rate, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level >= 1.0

    def take(self) -> None:
        """Take one request."""
        self._level -= 1.0


class RequestLimit:
    """The buckets of one kind of client.

    Args:
        rate: the limits.
        now: in seconds.

    Example:
        >>> limit = RequestLimit(RequestRate(each=2, all=3), now=0.0)
        >>> [limit.take(client, 0.0) for client in ("a", "a", "a", "b", "b")]
        [True, True, False, True, False]
        >>> limit.take("a", 0.5)
        True
    """

    def __init__(self, rate: RequestRate, now: float) -> None:
        self._rate = rate
        self._all = TokenBucket(rate.all, now)
        self._each: dict[str, TokenBucket] = {}

    def take(self, client: str, now: float) -> bool:
        """Return whether a request of this client is within the limits; count it if so."""
        bucket = self._each.get(client)
        if bucket is None:
            if len(self._each) >= ADDRESSES:
                del self._each[next(iter(self._each))]
            bucket = self._each[client] = TokenBucket(self._rate.each, now)
        if not (bucket.fill(now) and self._all.fill(now)):
            return False
        bucket.take()
        self._all.take()
        return True


def client_of(host: str) -> str:
    """Return the client behind an IP address: with IPv6 its /64 network, which one client owns.

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
