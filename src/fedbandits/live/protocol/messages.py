"""What neighbours send each other, and what is refused before anything is touched.

Messages hold states, not differences: a lost one is made good by the next, a repeated or an old one
is recognised by its numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedbandits.common.describe import canonical

VERSION = 2
"""Of the protocol. A message of another is refused, never misread."""

OVERHEAD = 192
"""Bytes of a message beside names and values, at most; measured by a test."""

LARGEST = 2.0**40
"""The largest number in a message. Honest agents clip what they send and bound what they move, so
that they never refuse each other, whatever a neighbour did before. An agent that closes 3,000
tickets a second for ten years stays below it, and a sum of such numbers still resolves 1/1000 of a
loss."""

Vector: TypeAlias = NDArray[np.float64]
Values: TypeAlias = Mapping[str, Vector]
"""Numbers by the name of their leaf."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


CLOSE = 1e-4
"""Weights that differ by no larger share are the same: solvers on two machines differ in digits."""


REASONS = ("message", "large", "numbers", "protocol", "game", "file", "ledger", "stale")
"""Why a neighbour's message is refused, by which they are counted."""


class RefusedError(Exception):
    """A message that is not acted upon; says why.

    Args:
        why: for people.
        reason: one word of it, by which refusals are counted.
    """

    def __init__(self, why: str, reason: str = "message") -> None:
        super().__init__(why)
        self.reason = reason


class Terms(NamedTuple):
    """What the files of both ends must say alike of their edge, beside the game.

    Nothing else: a change elsewhere in the network must not silence an edge that stayed the same.

    Attributes:
        weight: of the edge.
        limit: the most that a difference counts in an exchange; infinite for no limit.
    """

    weight: float
    limit: float = math.inf

    def agree(self, other: Terms) -> bool:
        """Whether both may exchange.

        Example:
            >>> Terms(0.25).agree(Terms(0.25))
            True
            >>> Terms(0.25).agree(Terms(0.2))
            False
        """
        return self.limit == other.limit and abs(self.weight - other.weight) <= CLOSE * self.weight


class Report(msgspec.Struct, frozen=True, array_like=True, tag="report", gc=False):
    """To the owner of an edge, once every gossip period.

    Attributes:
        version: of the protocol.
        game: a hash of what is played; agents of another game are refused.
        incarnation: the sender's, on this edge.
        other: the receiver's, as the sender knows it; 0 if it has never heard of it.
        sequence: of the last flow that the sender applied.
        terms: of the edge, by the sender's file.
        values: what the sender's leaves are now.
        leaving: whether this is its last.
    """

    version: Count
    game: bytes
    incarnation: Count
    other: Count
    sequence: Count
    terms: Terms
    values: dict[str, bytes]
    leaving: bool = False


class Flow(msgspec.Struct, frozen=True, array_like=True, tag="flow", gc=False):
    """From the owner of an edge, in answer to a report.

    Attributes:
        version: of the protocol.
        game: a hash of what is played.
        incarnation: the sender's, on this edge.
        other: the receiver's, as the sender knows it.
        sequence: of this flow.
        terms: of the edge, by the sender's file.
        flow: what has flowed to the receiver on balance, by average leaf.
        values: what the sender's leaves are now.
        leaving: whether this is its last.
    """

    version: Count
    game: bytes
    incarnation: Count
    other: Count
    sequence: Count
    terms: Terms
    flow: dict[str, bytes]
    values: dict[str, bytes]
    leaving: bool = False


Message: TypeAlias = Report | Flow

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Report | Flow)


class _Beginning(msgspec.Struct, frozen=True, array_like=True):
    """What messages of all versions have in common, whatever follows."""

    tag: str
    version: Count


_beginning = msgspec.msgpack.Decoder(_Beginning)

encode = _encoder.encode


def game_hash(algorithm: str, leaves: Mapping[str, int], arms: tuple[str, ...]) -> bytes:
    """Eight bytes that agents of one game have in common: algorithm, leaves and arms."""
    content = canonical([algorithm, dict(leaves), list(arms)])
    return hashlib.blake2b(content.encode(), digest_size=8).digest()


def packed(values: Values) -> dict[str, bytes]:
    """Numbers as they travel: 64 bits each, the lowest byte first."""
    return {name: value.astype("<f8", copy=False).tobytes() for name, value in values.items()}


class Format:
    """What a message of this game looks like.

    Args:
        game: a hash of what is played.
        averages: the number of numbers of each average leaf.
        maxima: the same of each maximum leaf.
    """

    def __init__(self, game: bytes, averages: Mapping[str, int], maxima: Mapping[str, int]) -> None:
        self.game = game
        self.averages = dict(averages)
        self.values = {**averages, **maxima}
        named = sum(len(name.encode()) + 5 + 8 * size for name, size in self.values.items())
        self.most_bytes = OVERHEAD + 2 * named

    def decode(self, payload: bytes) -> Message:
        """A message, if it is one of this game; its numbers are not yet looked at."""
        if len(payload) > self.most_bytes:
            raise RefusedError(
                f"a message of {len(payload):,} bytes; one of this game has at most "
                f"{self.most_bytes:,}",
                "large",
            )
        try:
            # First alone: what else there is in a message of another version is not known here.
            version = _beginning.decode(payload).version
            if version != VERSION:
                raise RefusedError(
                    f"a message of protocol {version}, and this is {VERSION}; install the same "
                    "version of fedbandits everywhere",
                    "protocol",
                )
            message = _decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise RefusedError(f"no message: {error}") from None
        if message.game != self.game:
            raise RefusedError("a message of another game: other arms or another algorithm", "game")
        return message

    def values_of(self, message: Message) -> dict[str, Vector]:
        """The leaves of a message's sender."""
        return _unpacked(message.values, self.values, "values")

    def flow_of(self, message: Flow) -> dict[str, Vector]:
        """What a message says has flowed."""
        return _unpacked(message.flow, self.averages, "flow")


def _unpacked(
    content: Mapping[str, bytes], sizes: Mapping[str, int], what: str
) -> dict[str, Vector]:
    if content.keys() != sizes.keys():
        raise RefusedError(f"{what} of {sorted(content)} where {sorted(sizes)} are expected")
    found: dict[str, Any] = {}
    for name, size in sizes.items():
        if len(content[name]) != 8 * size:
            raise RefusedError(
                f"{what} {name!r} has {len(content[name])} bytes; {size} numbers have {8 * size}"
            )
        vector = np.frombuffer(content[name], "<f8")
        if not (np.abs(vector) <= LARGEST).all():  # false for NaN, too
            raise RefusedError(
                f"{what} {name!r} has a number that is not finite or is beyond {LARGEST:g}, "
                "which no honest agent sends",
                "numbers",
            )
        found[name] = vector
    return found
