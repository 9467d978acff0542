"""The removal of a valid member that lies undoes its lies."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.live.rehearsal.virtual_clock import run_virtual
from tests.salt import SALT
from tests.tiers import soak_but

from .histories import ARMS
from .lying_histories import ATTACKS, LyingHistory

EVENTS = int(os.environ.get("LYING_EVENTS", "3000"))
"""Events of each history; 100,000 on demand."""


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("network", soak_but(["path"], ["random", "path"]))
def test_removal_undoes_all_that_a_liar_moved(network: str, attack: str) -> None:
    """After the removal, estimates are those that the honest members made themselves.

    On a path the liar is at one end, and what it moves passes through all others.
    """
    given = fb.networks.path(5) if network == "path" else None
    history = LyingHistory(random.Random(SALT * 100 + 9), ATTACKS[attack], given)
    run_virtual(history.play(EVENTS))
    assert history.liar.lies > EVENTS / 3
    ledgers = history.ledgers()
    assert history.liar.name not in ledgers
    own = np.mean([ledger.inputs["z"] for ledger in ledgers.values()], axis=0)
    for name, ledger in ledgers.items():
        np.testing.assert_allclose(ledger.values["z"], own, rtol=0, atol=0.05)
        recommended = ARMS.index(history.agents[name].recommended)
        assert own[recommended] <= own.min() + 0.1  # the best by these, or equal to the digits left
