"""Arms side by side: `[K, ...]` held as K arrays, so that a kernel keeps each in registers.

A kernel on an accelerator takes only arrays whose sizes are powers of two, and K is any number.
Algorithms are written for whatever `__array_namespace__` answers for, arms first: so is this.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from fedbandits.arrays import Array


class Late(Sequence[Array]):
    """Arrays that are made when somebody asks for them, each once.

    What a kernel reads late it need not hold in registers meanwhile.
    """

    def __init__(self, count: int, make: Callable[[int], Array]) -> None:
        self._made: list[Array | None] = [None] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return tuple(self[j] for j in range(len(self))[k])
        k = range(len(self))[k]  # who makes them knows no negative numbers
        if self._made[k] is None:
            self._made[k] = self._make(k)
        return self._made[k]


def _lifted(function: Callable[..., Array]) -> Callable[..., Any]:
    """A function of numbers as one of arms: arm by arm, what has no arms being the same for all.

    Of what is late, the result is late.
    """

    def of_arms(*operands: Any) -> Any:
        arms = next((len(x.each) for x in operands if isinstance(x, Arms)), None)
        if arms is None:
            return function(*operands)
        rows = [x.each if isinstance(x, Arms) else (x,) * arms for x in operands]
        if any(isinstance(row, Late) for row in rows):
            return Arms(Late(arms, lambda k: function(*(row[k] for row in rows))))
        return Arms([function(*row) for row in zip(*rows, strict=True)])

    return of_arms


class Arms:
    """One array for each arm, all of one shape: `[K, ...]` to whoever indexes, adds or compares."""

    __array_ufunc__ = None  # a NumPy number on the left leaves the work to us

    def __init__(self, each: Sequence[Array]) -> None:
        self.each = each if isinstance(each, Late) else tuple(each)

    def __array_namespace__(self) -> type[_Namespace]:
        """The functions that algorithms may call on it."""
        return _Namespace

    @property
    def shape(self) -> tuple[int, ...]:
        """`(K, ...)`."""
        return (len(self.each), *jnp.shape(self.each[0]))

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        """Of each."""
        return jnp.result_type(self.each[0])

    def __getitem__(self, k: int) -> Array:
        return self.each[k]

    def reshape(self, shape: tuple[int, ...]) -> Arms:  # noqa: ARG002
        """Itself: it meets other axes without ones of its own."""
        return self

    def astype(self, dtype: Any) -> Arms:
        """Each of another type."""
        found: Arms = _lifted(lambda x: jnp.asarray(x).astype(dtype))(self)
        return found

    def sum(self, axis: int, dtype: Any = None) -> Array:
        """Over the arms."""
        return _Namespace.sum(self if dtype is None else self.astype(dtype), axis)

    __add__ = __radd__ = _lifted(operator.add)
    __mul__ = __rmul__ = _lifted(operator.mul)
    __and__ = __rand__ = _lifted(operator.and_)
    __or__ = __ror__ = _lifted(operator.or_)
    __sub__, __rsub__ = _lifted(operator.sub), _lifted(lambda x, y: y - x)
    __truediv__, __rtruediv__ = _lifted(operator.truediv), _lifted(lambda x, y: y / x)
    __pow__, __neg__ = _lifted(operator.pow), _lifted(operator.neg)
    __lt__, __le__ = _lifted(operator.lt), _lifted(operator.le)
    __gt__, __ge__ = _lifted(operator.gt), _lifted(operator.ge)
    __eq__, __ne__ = _lifted(operator.eq), _lifted(operator.ne)
    __hash__ = None  # type: ignore[assignment]


def _over_arms(pair: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """A reduction over the first axis."""

    def reduced(x: Arms, axis: int) -> Array:
        if axis != 0:
            raise NotImplementedError(f"axis {axis} of arms in registers; the arms are axis 0")
        return functools.reduce(pair, x.each)

    return reduced


class _Namespace:
    """What of the array standard a kernel does arm by arm; an algorithm that calls another function
    is not for it.
    """

    exp, log, sqrt = (staticmethod(_lifted(f)) for f in (jnp.exp, jnp.log, jnp.sqrt))
    minimum, maximum = (staticmethod(_lifted(f)) for f in (jnp.minimum, jnp.maximum))
    add, where = (staticmethod(_lifted(f)) for f in (jnp.add, jnp.where))
    logical_or = staticmethod(_lifted(jnp.logical_or))
    sum, any = (staticmethod(_over_arms(f)) for f in (jnp.add, jnp.logical_or))
    min, max = (staticmethod(_over_arms(f)) for f in (jnp.minimum, jnp.maximum))
    int32, inf = jnp.int32, jnp.inf

    @staticmethod
    def arange(arms: int) -> Arms:
        """0, ..., K - 1."""
        return Arms([jnp.int32(k) for k in range(arms)])

    @staticmethod
    def stack(each: Sequence[Array]) -> Arms:
        """Arms side by side."""
        return Arms(each)
