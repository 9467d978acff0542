"""An operator adds members to a federation's file and removes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import fedbandits.live.federation.membership as changing
from fedbandits.cli import app
from fedbandits.config.experiment import ConfigError
from fedbandits.live import Federation
from fedbandits.live.federation.membership import join, leave

FILE = """\
# Our shops, since spring.
version = 3   # see the wiki
arms = ["tea", "coffee"]
members = ["north", "centre", "south"] # from the north down
links = [
    ["north", "centre"],  # by the river
    ["centre", "south"],
]

[addresses]
north = "north.example:7447"   # behind the firewall
centre = "centre.example:7447"

[gossip] # as agreed
name = "metropolis"
"""

JOINED = (
    FILE.replace("version = 3", "version = 4")
    .replace('"south"] #', '"south", "west"] #')
    .replace(
        '["centre", "south"],\n',
        '["centre", "south"],\n    ["west", "north"],\n    ["west", "south"],\n',
    )
    .replace("\n\n[gossip]", '\nwest = "west.example:7447"\n\n[gossip]')
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "federation.toml"
    path.write_text(FILE)
    return path


def call(*words: str | Path) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(app, ["live", *map(str, words)])


def test_one_joins_and_leaves_again(file: Path) -> None:
    change = join(file, "west", ["north", "south"], "west.example:7447")
    assert file.read_text() == JOINED
    assert set(Federation.read(file).part("west").neighbours) == {"north", "south"}
    assert (change.before.version, change.after.version) == (3, 4)
    leave(file, "west")
    assert file.read_text() == FILE.replace("version = 3", "version = 5")
    leave(file, "north")
    assert Federation.read(file).members == ("centre", "south")
    assert Federation.read(file).addresses == {"centre": "centre.example:7447"}


def test_who_is_concerned_has_other_neighbours_or_weights(tmp_path: Path) -> None:
    """On a path a-b-c-d-e, one more at e: d's degree is as before, and so is its edge to c."""
    file = tmp_path / "federation.toml"
    links = '[["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"]]'
    file.write_text(f'arms = ["x", "y"]\nmembers = ["a", "b", "c", "d", "e"]\nlinks = {links}\n')
    assert join(file, "f", ["e"]).concerned == ("e",)
    assert leave(file, "f").concerned == ("e",)
    # c gets a third neighbour, which changes the weights of its edges at their other ends too.
    assert join(file, "g", ["c"]).concerned == ("b", "c", "d")


def test_a_file_without_version_has_the_first(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    text = '# Ours.\n\narms = ["a", "b"]\nmembers = ["x"]\nlinks = []\n\n'
    text += '# Weights.\n[gossip]\nname = "metropolis"\n'
    file.write_text(text)
    assert Federation.read(file).version == 1
    join(file, "y", ["x"], "y.example:1")
    expected = text.replace("arms", "version = 2\narms")
    expected = expected.replace('["x"]', '["x", "y"]').replace("[]", '[["y", "x"]]')
    assert file.read_text() == f'{expected}\n[addresses]\ny = "y.example:1"\n'


@pytest.mark.parametrize("version", ["0", "-1", "1.5", '"two"', "true"])
def test_a_version_is_a_whole_number(file: Path, version: str) -> None:
    file.write_text(FILE.replace("version = 3", f"version = {version}"))
    with pytest.raises(ConfigError, match="version"):
        Federation.read(file)


@pytest.mark.parametrize(
    ("name", "links", "address", "why"),
    [
        ("north", ["south"], None, "north is a member already"),
        ("west", ["nort"], None, r"no member 'nort'.*north.*centre"),
        ("west", ["north", "west"], None, "no member 'west'"),
        ("west", ["north", "north"], None, "west and north appears twice"),
        ("west", [], None, "would have no neighbours.*--link north"),
        ("we st", ["north"], None, "member 'we st': a member's name"),
        ("", ["north"], None, "member names must be texts"),
        ("../west", ["north"], None, "member '../west': a member's name"),
        ("west", ["north"], "west.example", "must be host:port"),
        ("west", ["north", "south"], None, "neither west nor south would .*; add --address west"),
    ],
)
def test_who_cannot_join(
    file: Path, name: str, links: list[str], address: str | None, why: str
) -> None:
    with pytest.raises(ConfigError, match=f"(?s)federation.toml.*{why}"):
        join(file, name, links, address)
    assert file.read_text() == FILE


def test_nobody_is_cut_off(file: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"without centre no path leads from north to south; link"
    ):
        leave(file, "centre")
    with pytest.raises(ConfigError, match=r"no member 'nort'.*north"):
        leave(file, "nort")
    assert file.read_text() == FILE
    file.write_text('arms = ["a", "b"]\nmembers = ["x"]\nlinks = []\n')
    with pytest.raises(ConfigError, match="x is the last member"):
        leave(file, "x")


def test_a_network_by_its_name_is_written_out_first(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    text = 'arms = ["a", "b"]\n\n[network]\nname = "ring"\nagents = 3\n'
    file.write_text(text)
    with pytest.raises(ConfigError, match="cannot gain or lose a member") as found:
        join(file, "west", ["agent1"])
    with pytest.raises(ConfigError, match="cannot gain"):
        leave(file, "agent1")
    assert file.read_text() == text
    # What it says to write is the same federation.
    lines = "\n".join(found.value.__notes__)
    # On the command line too they stand on lines of their own.
    assert call("join", file, "west", "--link", "agent1").stderr.endswith(f":\n{lines}\n")
    old = Federation.read(file)
    file.write_text(f'arms = ["a", "b"]\n{lines}\n')
    new = Federation.read(file)
    assert [new.part(name) for name in new.members] == [old.part(name) for name in old.members]


def test_keys_are_for_members(file: Path) -> None:
    for option in ("--add", "--renew"):
        done = call("keys", file, "--out", file.parent / "keys", option, "nort")
        assert done.exit_code == 2
        assert "no member 'nort'; did you mean 'north'?" in done.stderr
        assert "The members are north, centre, south" in done.stderr
    assert not (file.parent / "keys").exists()


def test_the_file_is_replaced_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to it stays one, who may read it stays the same, and a full disk leaves it alone."""
    link = file.with_name("link.toml")
    link.symlink_to(file)
    file.chmod(0o640)
    join(link, "west", ["north"])
    assert link.is_symlink()
    assert Federation.read(file).version == 4
    assert file.stat().st_mode & 0o777 == 0o640

    class Full:
        def __enter__(self) -> None:
            raise OSError("no space")

        def __exit__(self, *_: object) -> None: ...

    before = file.read_bytes()
    monkeypatch.setattr(changing, "atomic_write", lambda _: Full())
    with pytest.raises(OSError, match="no space"):
        leave(file, "west")
    assert file.read_bytes() == before
    assert sorted(each.name for each in file.parent.iterdir()) == ["federation.toml", "link.toml"]


def test_the_commands_say_what_comes_next(file: Path) -> None:
    done = call("join", file, "west", "--link", "north", "--address", "west.example:7447")
    assert done.exit_code == 0, done.output
    assert "west is in" in done.output
    assert "version 4" in done.output
    assert f"fedbandits live keys {file} --add west" in done.output
    assert re.search("copy federation.toml to north, and restart", done.output)
    assert re.search("copy federation.toml to centre, south too", done.output)
    done = call("leave", file, "west")
    assert "stop the agent of west" in done.output
    done = call("leave", file, "centre")
    assert done.exit_code != 0
    assert "no path leads from north to south" in done.output
