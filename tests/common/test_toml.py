"""TOML that is written: read again as it was meant, in the user's own words."""

from __future__ import annotations

import datetime
import json
import math
import tomllib
from typing import Any

import pytest

from fedbandits.common.toml import changed, toml_text


def test_toml_is_read_as_it_was_written() -> None:
    config = {
        "runs": 3,
        "text": 'a "quoted" \\ line\nand\ttab \x7f \x01 é',
        "floats": [0.1, 1e-05, 1e300, -0.0, math.inf],
        "tables": [{"a": 1}, {"b": {"c": 2}}],
        "when": datetime.datetime(2024, 2, 3, 4, 5, 6),
        "problem": {"on": True, "inner": {"name": "x", "odd key": [], "empty": {}}},
        "empty": {},
    }
    assert tomllib.loads(toml_text(config)) == config
    with pytest.raises(TypeError, match="NoneType"):
        toml_text({"a": None})


TEXTS = (
    '[algorithm]\nname = "x"\n[algorithm.rate]\na = 1 # one\n[z]\n',
    'algorithm.rate.a = 1\nalgorithm.name = "x" # y\nz = {}\n',
    '[[algorithm]]\nname = "x"\n[[algorithm]]\nname = "y"\n',
    "# head\nruns = 1\n\n# about\n[algorithm]\nrate = {a = 1, b = 2} # r\n# end\n[other]\nx = 1\n",
    'algorithm = {name = "x", rate = 3}\n[m]\n',
    "[algorithm]\nrate = [1, 2, # two\n3]\n# c\n\n[algorithm.sub.deep]\nq = 1\n",
)
CONFIGS: tuple[dict[str, Any], ...] = (
    {"algorithm": {"name": "x", "rate": 0.5}},
    {"runs": 2, "algorithm": {"name": "x", "rate": {"a": 2, "c": {"d": [1, 2]}}}, "z": {"k": 1}},
    {"seed": 3, "algorithm": {"rate": [1, 2, 3], "sub": {"deep": {"q": 2}}}},
    {"runs": 1.0, "flag": True, "algorithm": {"rate": 1}},
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("config", CONFIGS)
def test_any_text_can_say_anything(text: str, config: dict[str, Any]) -> None:
    found = tomllib.loads(changed(text, config))
    # As JSON: 1 is neither 1.0 nor true there.
    assert json.dumps(found, sort_keys=True) == json.dumps(config, sort_keys=True)


def test_comments_and_order_stay_the_users() -> None:
    text = (
        "# Mine.\nruns = 2  # few\nseed = 1\n\n# The best so far.\n[algorithm]\n"
        'name = "FedExp3"\nrate = 0.1  # as in the paper\n# from_theorem = true\n'
    )
    config = {"draws": 5, "runs": 2, "algorithm": {"name": "FedExp3", "rate": 0.25}}
    assert changed(text, config) == (
        "draws = 5\n# Mine.\nruns = 2  # few\n\n# The best so far.\n[algorithm]\n"
        'name = "FedExp3"\nrate = 0.25  # as in the paper\n# from_theorem = true\n'
    )
