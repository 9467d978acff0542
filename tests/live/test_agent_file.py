"""`agent.toml`: wrong types, unknown keys and keys that need each other are rejected with a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedbandits.config.experiment import ConfigError
from fedbandits.live.operations.agent_file import agent_schema
from fedbandits.live.operations.site import read_site
from tests.accepted import faults

FEDERATION = """
arms = ["tea", "coffee"]
members = ["north"]
links = []
"""


def write(folder: Path, more: str) -> Path:
    (folder / "federation.toml").write_text(FEDERATION)
    path = folder / "agent.toml"
    path.write_text(f'name = "north"\nfederation = "federation.toml"\n{more}')
    return path


@pytest.mark.parametrize(
    ("more", "place", "why"),
    [
        ("journal = 3", "", "journal must be the name of a file or folder, not 3"),
        ('journal = ""', "", "journal must be the name of a file or folder, not ''"),
        ("keys = 3", "", "keys must be the name of a file or folder, not 3"),
        ('low = "a"', "", "low must be a number, not 'a'"),
        ("high = true", "", "high must be a number, not True"),
        ("low = 2\nhigh = 1", "", "low and high must be finite, low < high, not 2.0 and 1.0"),
        ("addresses = 3", "", "addresses must be a table of texts, not 3"),
        ("addresses = {north = 1}", "", "addresses must be a table of texts, not {'north': 1}"),
        ("service = 3", "", "service must be a section: write [service]"),
        (
            "[service]\naddress = 8080",
            " [service]",
            'address must be a text such as address = "127.0.0.1:8080", not 8080',
        ),
        ("[service]\ntoken = 5", " [service]", "token must be the name of a file or folder, not 5"),
        ('[service]\ntls = "yes"', " [service]", "tls must be true or false, not 'yes'"),
        ("[service]\ntls = 1", " [service]", "tls must be true or false, not 1"),
        ("[service]\nbaseline = 1", " [service]", "baseline must be a text, not 1"),
        ("[service]\ntls = true", " [service]", 'tls = true needs keys; add keys = "keys/north"'),
        ("[service]\ntsl = true", " [service]", "unknown key 'tsl'; did you mean 'tls'?"),
        (
            '[privacy]\nepsilon = "a"',
            " [privacy]",
            "epsilon must be a number of at least 1e-06 such as epsilon = 1.0, not 'a'",
        ),
        ("[service]\nbaseline = ''", " [service]", "baseline must be a text, not ''"),
        (
            "[service]\nhosts = 'a.org'",
            " [service]",
            "hosts must be a list of texts such as hosts =",
        ),
        (
            "[service]\nhosts = ['https://a.org']",
            " [service]",
            "hosts: 'https://a.org' is not a host; write a name or an IP address without scheme",
        ),
        ("[service]\ntoken_env = 1", " [service]", "token_env must be a text such as"),
        (
            "[service]\ntoken = 'a'\ntoken_env = 'B'",
            " [service]",
            "give either token or token_env, not both",
        ),
        (
            "[service]\nread_token = 'a'\nread_token_env = 'B'",
            " [service]",
            "give either read_token or read_token_env, not both",
        ),
        ("[privacy]", " [privacy]", "no epsilon; add epsilon = 1.0"),
        ("jornal = 'x'", "", "unknown key 'jornal'; did you mean 'journal'"),
        (
            "addresses = {nort = 'x:1'}",
            "",
            "an address of 'nort', which is not a member; did you mean",
        ),
        ("addresses = {north = 'x:9e9'}", "", "address of 'north' must be host:port, not 'x:9e9'"),
    ],
)
def test_mistakes_are_refused(tmp_path: Path, more: str, place: str, why: str) -> None:
    path = write(tmp_path, more)
    with pytest.raises(ConfigError) as caught:
        read_site(path)
    assert str(caught.value).startswith(f"{path}{place}: {why}")


@pytest.mark.parametrize("key", ["name", "federation"])
def test_keys_that_must_be_there(tmp_path: Path, key: str) -> None:
    for change, why in (("", f"no {key}; add {key} = "), (f"{key} = 3", f"{key} must be ")):
        path = write(tmp_path, "")
        lines = [change if line.startswith(key) else line for line in path.read_text().splitlines()]
        path.write_text("\n".join(lines))
        with pytest.raises(ConfigError) as caught:
            read_site(path)
        assert str(caught.value).startswith(f"{path}: {why}")


def test_names_of_members_and_neighbours_without_keys(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.write_text(path.read_text().replace("north", "nort"))
    with pytest.raises(ConfigError, match=f"{path}: no member 'nort'; did you mean 'north'"):
        read_site(path)
    path = write(tmp_path, "")
    pair = FEDERATION.replace('"]\nlinks = []', '", "south"]\nlinks = [["north", "south"]]')
    (tmp_path / "federation.toml").write_text(pair)
    with pytest.raises(ConfigError, match=f"{path}: north has neighbours.*fedbandits live keys"):
        read_site(path)
    path.write_text(path.read_text() + 'keys = "keys"')
    assert read_site(path).part.neighbours == {"south": 0.5}


def test_names_of_files_are_relative_to_the_file(tmp_path: Path) -> None:
    site = read_site(write(tmp_path, 'keys = "keys"\n[service]\ntls = true'))
    assert (site.keys, site.journal) == (tmp_path / "keys", tmp_path / "north.db")
    assert site.token == tmp_path / "north.token"


def test_the_schema_marks_wrong_types() -> None:
    north = {"name": "north", "federation": "federation.toml"}
    assert faults(agent_schema, north | {"low": 0, "service": {"address": "127.0.0.1:0"}}) == []
    for wrong in ({"low": "a"}, {"keys": 3}, {"service": {"tls": "yes"}}, {"addresses": {"a": 1}}):
        assert faults(agent_schema, north | wrong) != []
    assert "null" not in str(agent_schema())
    assert faults(agent_schema, north | {"privacy": {"epsilon": 0.0}}) != []
