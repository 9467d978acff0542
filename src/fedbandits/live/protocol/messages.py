"""Messages between neighbours, and the checks that a message passes before it has any effect.

A message holds the sender's state, not a difference. The next message therefore makes up for a lost
one, and the numbers in a message show whether it is repeated or old.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common.describe import canonical

VERSION = 2
"""The version of the protocol. Messages of other versions are rejected."""

OVERHEAD = 192
"""The largest size of a message without names and values, in bytes; a test measures it."""

LARGEST = 2.0**40
"""The largest number in a message.

Honest agents clip the values that they send and bound the flows that they move, so that they never
reject each other. An agent that closes 3,000 tickets a second for ten years stays below this bound,
and a sum of such numbers still resolves 1/1000 of a loss.
"""

WEIGHT_TOLERANCE = 1e-4
"""The relative difference up to which weights are equal. Solvers differ in the last digits."""

REASONS = ("message", "large", "numbers", "protocol", "game", "file", "ledger", "stale")
"""The reasons for rejected messages, by which an agent counts them."""

Vector: TypeAlias = NDArray[np.float64]
Values: TypeAlias = Mapping[str, Vector]
"""Numbers by the name of their leaf."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class RejectedMessageError(Exception):
    """A rejected message.

    Args:
        why: the explanation, as a sentence.
        reason: one of `REASONS`.
    """

    def __init__(self, why: str, reason: str = "message") -> None:
        super().__init__(why)
        self.reason = reason


class EdgeTerms(NamedTuple):
    """The settings of an edge that both ends must share, besides the game.

    Other settings may differ: a change elsewhere in the network must not stop this edge.

    Attributes:
        weight: The weight of the edge.
        limit: The largest difference that counts in an exchange; infinite for no limit.
    """

    weight: float
    limit: float = math.inf

    def agree(self, other: EdgeTerms) -> bool:
        """Return whether both ends may exchange.

        Example:
            >>> EdgeTerms(0.25).agree(EdgeTerms(0.25))
            True
            >>> EdgeTerms(0.25).agree(EdgeTerms(0.2))
            False
        """
        near = abs(self.weight - other.weight) <= WEIGHT_TOLERANCE * self.weight
        return self.limit == other.limit and near


class _Header(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The numbers at the beginning of every message."""

    version: Count
    game: bytes
    sender_incarnation: Count
    receiver_incarnation: Count
    sequence: Count
    terms: EdgeTerms


class ReportMessage(_Header, frozen=True, array_like=True, tag="report", gc=False):
    """A message to the owner of an edge, sent once every gossip period.

    Attributes:
        version: The version of the protocol.
        game: A hash of the game. Agents of another game are rejected.
        sender_incarnation: The incarnation of the sender's end of the edge.
        receiver_incarnation: The incarnation of the receiver's end that the sender last received;
            0 if it received none.
        sequence: The number of the last flow that the sender applied.
        terms: The terms of the edge in the sender's file.
        values: The current values of the sender's leaves.
        leaving: Whether the sender leaves and this is its last state.
    """

    values: dict[str, bytes]
    leaving: bool = False


class FlowMessage(_Header, frozen=True, array_like=True, tag="flow", gc=False):
    """A message from the owner of an edge, in answer to a report.

    Attributes:
        version: As in `ReportMessage`, like all attributes but the following two.
        sequence: The number of this flow.
        flow: The total flow to the receiver so far, by average leaf.
    """

    flow: dict[str, bytes]
    values: dict[str, bytes]
    leaving: bool = False


Message: TypeAlias = ReportMessage | FlowMessage

encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class _Beginning(msgspec.Struct, frozen=True, array_like=True):
    """The first elements of a message, which are the same in all versions."""

    tag: str
    version: Count


_beginning = msgspec.msgpack.Decoder(_Beginning)


def game_hash(algorithm: str, leaves: Mapping[str, int], arms: tuple[str, ...]) -> bytes:
    """Return eight bytes that identify the algorithm, its leaves and the arms."""
    content = canonical([algorithm, dict(leaves), list(arms)])
    return hashlib.blake2b(content.encode(), digest_size=8).digest()


def packed(values: Values) -> dict[str, bytes]:
    """Return vectors as bytes: 64 bits for each number, the lowest byte first."""
    return {name: value.astype("<f8", copy=False).tobytes() for name, value in values.items()}


def unpacked(content: Mapping[str, bytes]) -> dict[str, Vector]:
    """Return the vectors that `packed` has packed."""
    return {name: np.frombuffer(value, "<f8") for name, value in content.items()}


class MessageFormat:
    """The format of the messages of one game.

    Args:
        game: a hash of the game.
        averages: the length of each average leaf.
        maxima: the length of each maximum leaf.
    """

    def __init__(self, game: bytes, averages: Mapping[str, int], maxima: Mapping[str, int]) -> None:
        self.game = game
        self.averages = dict(averages)
        self.values = {**averages, **maxima}
        content = sum(len(name.encode()) + 5 + 8 * size for name, size in self.values.items())
        self.most_bytes = OVERHEAD + 2 * content

    @classmethod
    def of(cls, algorithm: AnyAlgorithm, state: Any, arms: tuple[str, ...]) -> MessageFormat:
        """Return the format for an algorithm in its first state, on these arms."""
        sent = algorithm.message(state)
        sizes: dict[str, dict[str, int]] = {"average": {}, "maximum": {}}
        for name, leaf in algorithm.leaves.items():
            sizes[leaf.combine][name] = len(sent[name])
        averages, maxima = sizes["average"], sizes["maximum"]
        return cls(game_hash(type(algorithm).__name__, averages | maxima, arms), averages, maxima)

    def decode(self, payload: bytes) -> Message:
        """Return a message of this game; the numbers in it are not yet checked.

        Raises:
            RejectedMessageError: if it is not a message of this version and game.
        """
        if len(payload) > self.most_bytes:
            raise RejectedMessageError(
                f"a message of {len(payload):,} bytes; one of this game has at most "
                f"{self.most_bytes:,}",
                "large",
            )
        try:
            # First, since the rest of a message depends on its version.
            version = _beginning.decode(payload).version
            if version != VERSION:
                raise RejectedMessageError(
                    f"a message of protocol {version}, and this is {VERSION}; install the same "
                    "version of fedbandits everywhere",
                    "protocol",
                )
            message = _decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise RejectedMessageError(f"not a message: {error}") from None
        if message.game != self.game:
            raise RejectedMessageError(
                "a message of another game: other arms or another algorithm", "game"
            )
        return message

    def values_of(self, message: Message) -> dict[str, Vector]:
        """Return the sender's values; raise RejectedMessageError for impossible ones."""
        return _checked(message.values, self.values, "values")

    def flow_of(self, message: FlowMessage) -> dict[str, Vector]:
        """Return the flow; raise RejectedMessageError for an impossible one."""
        return _checked(message.flow, self.averages, "flow")


def _checked(
    content: Mapping[str, bytes], sizes: Mapping[str, int], what: str
) -> dict[str, Vector]:
    """Return vectors of the expected names and sizes, whose numbers are within bounds."""
    if content.keys() != sizes.keys():
        raise RejectedMessageError(f"{what} of {sorted(content)}, but {sorted(sizes)} are expected")
    for name, size in sizes.items():
        if len(content[name]) != 8 * size:
            raise RejectedMessageError(
                f"{what} {name!r} has {len(content[name])} bytes; {size} numbers have {8 * size}"
            )
    vectors = unpacked(content)
    for name, vector in vectors.items():
        if not (np.abs(vector) <= LARGEST).all():  # false for NaN, too
            raise RejectedMessageError(
                f"{what} {name!r} has a number that is not finite or is beyond {LARGEST:g}, "
                "which no honest agent sends",
                "numbers",
            )
    return vectors
