"""Rating sequences drawn from a scale model of MovieLens, at the paper's full size."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedbandits.common.checks import fits

Floats = npt.NDArray[np.float64]

_CALIBRATIONS = 3
_HEAVY_ARM = "Drama"
_BYTES = 64
"""Of a rating while it is drawn, at least: eight numbers."""


@dataclass(frozen=True, eq=False)
class Generated:
    """The ratings of every agent for every genre, one sequence after another.

    Attributes:
        genres: names of the arms.
        count: ratings of each agent for each genre, `[N, K]`.
        half_stars: twice the ratings, agent by agent, genre by genre, in order of time.
    """

    genres: tuple[str, ...]
    count: npt.NDArray[np.int32]
    half_stars: npt.NDArray[np.uint8]


def generate(agents: int, horizon: int, seed: int) -> Generated:
    """Draw ratings of users who rated all 20 labels; the most per user and genre are T.

    How many ratings a user gives to a genre follows a log-normal law of the user's activity. A
    rating is the user's mean, plus what the user and everyone think of the genre, plus a drift
    over the user's history, plus correlated noise, rounded to half or whole stars. The heaviest
    user is made to reach T in one genre (and, if the law says more, no more than T in others): at
    the paper's size the law alone stops near 4,000.

    Args:
        agents: N.
        horizon: T.
        seed: of everything.
    """
    model = _model()
    genres = tuple(model["genres"])
    rng = np.random.default_rng(seed)
    activity, count = _counts(model, agents, horizon, rng)
    ratings = int(count.sum(dtype=np.int64))
    fits(_BYTES * ratings, f"{ratings:,} ratings, of {agents:,} agents at horizon {horizon:,},")
    draws = _draw(model, activity, count, rng)
    # Rounding to at most 5 stars pulls the means of well-liked genres down; give it back.
    target = 5.5 * (1 - _column(model, "mean_loss"))
    shift = np.zeros(len(genres))
    for _ in range(_CALIBRATIONS):
        half_stars = _rounded(draws, shift)
        means = np.add.reduceat(half_stars / 2, draws.start) / count.ravel()
        shift += target - means.reshape(count.shape).mean(axis=0)
    return Generated(genres, count, _rounded(draws, shift))


def _model() -> dict[str, Any]:
    path = Path(__file__).with_name("scale_model.json")
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path.name} here: it was computed from ratings that are for research "
            "only, so wheels go without. Install from the source tree, with pip install -e '.[sim]'"
        )
    model: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return model


def _column(model: dict[str, Any], name: str) -> Floats:
    return np.array([row[name] for row in model["genres"].values()])


def _counts(
    model: dict[str, Any], agents: int, horizon: int, rng: np.random.Generator
) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Return standardised log activity of users, `[N]`, and ratings per genre, `[N, K]`."""
    law = model["ratings_per_user"]
    at_500, slope, spread = (_column(model, key) for key in ("log_m_at_n500", "slope", "resid_sd"))
    activity = rng.standard_normal(agents)
    log_n = law["log_mean"] + law["log_sd"] * activity
    heavy = int(np.argmax(log_n))
    arm = list(model["genres"]).index(_HEAVY_ARM)
    log_n[heavy] = np.log(500) + (np.log(horizon) - at_500[arm]) / slope[arm]
    log_m = at_500 + slope * (log_n[:, None] - np.log(500))
    log_m += spread * rng.standard_normal(log_m.shape)
    count = np.rint(np.exp(np.minimum(log_m, log_n[:, None])))
    count = np.clip(count, 1, horizon).astype(np.int32)
    count[heavy, arm] = horizon
    return activity, count


class _Draws(NamedTuple):
    """The components of ratings before rounding; one entry per rating."""

    start: npt.NDArray[np.int64]
    """The start of each of the N·K sequences."""
    arm: npt.NDArray[np.int64]
    latent: Floats
    whole: npt.NDArray[np.bool_]
    """Rounded to whole stars."""


def _draw(
    model: dict[str, Any], activity: Floats, count: npt.NDArray[np.int32], rng: np.random.Generator
) -> _Draws:
    from scipy.signal import lfilter

    agents, arms = count.shape
    lengths = count.ravel()
    start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)[:-1]])
    pair = np.repeat(np.arange(agents * arms), lengths)
    user, arm = pair // arms, pair % arms
    # When in the user's history each rating falls: uniform, in order within the sequence.
    when = rng.random(pair.size)
    when = when[np.lexsort((when, pair))]

    users, rho = model["user_mean"], model["user_mean"]["correlation_with_log_n"]
    mood = rho * activity + np.sqrt(1 - rho**2) * rng.standard_normal(agents)
    mean = users["mean"] + users["sd"] * mood
    taste = _column(model, "interaction_sd") * rng.standard_normal((agents, arms))
    slope = model["slope_over_history_sd"] * rng.standard_normal(agents)
    # What is left of the spread within a user once taste and drift are taken out.
    share = count.sum(axis=0) / count.sum()
    noise_var = model["within_user_sd"] ** 2 - model["slope_over_history_sd"] ** 2 / 12
    noise_var -= float(share @ _column(model, "interaction_sd") ** 2)
    # One chain through all sequences: the end of one and the start of the next, of the same user
    # but for one in twenty, are correlated like neighbours.
    phi = model["lag1_autocorrelation"]
    noise = lfilter([np.sqrt(1 - phi**2)], [1, -phi], rng.standard_normal(pair.size))

    latent = (mean[:, None] + _column(model, "dev_from_user_mean") + taste).ravel()[pair]
    latent += slope[user] * (when - 0.5) + _drift(model, arm, when)
    latent += np.sqrt(noise_var) * noise
    habit = np.where(
        rng.random(agents) < model["whole_star_only_users"], 1.0, _whole_star_habit(model)
    )
    return _Draws(start, arm, latent, rng.random(pair.size) < habit[user])


def _drift(model: dict[str, Any], arm: npt.NDArray[np.int64], when: Floats) -> Floats:
    """Return the common drift of ratings of a genre over a user's history, in stars."""
    losses = np.array([row["loss_by_decile"] for row in model["genres"].values()])
    stars = -5.5 * (losses - losses.mean(axis=1, keepdims=True))
    middles = (np.arange(10) + 0.5) / 10
    drift = np.empty(when.size)
    for i, curve in enumerate(stars):
        of_arm = arm == i
        drift[of_arm] = np.interp(when[of_arm], middles, curve)
    return drift


def _whole_star_habit(model: dict[str, Any]) -> float:
    """Return how often other users round to whole stars, to match the histogram."""
    shares: dict[str, float] = model["histogram"]
    whole = sum(share for stars, share in shares.items() if float(stars) % 1 == 0)
    return max(0.0, 2 * whole - 1)  # half of what is rounded to half stars is whole anyway


def _rounded(draws: _Draws, shift: Floats) -> npt.NDArray[np.uint8]:
    """Return half stars 1, ..., 10."""
    stars = draws.latent + shift[draws.arm]
    half = np.where(draws.whole, 2 * np.rint(stars), np.rint(2 * stars))
    return np.clip(half, np.where(draws.whole, 2, 1), 10).astype(np.uint8)
