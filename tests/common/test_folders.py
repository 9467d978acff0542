"""Where caches and data lie."""

from pathlib import Path

import platformdirs
import pytest

from fedbandits.common import folders


def test_the_folders_are_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert folders.cache_folder() == tmp_path / "caches" / "fedbandits"
    assert folders.data_folder() == tmp_path / "data" / "fedbandits"
    assert not list(tmp_path.iterdir())  # asking makes nothing


def test_no_home_is_no_folder_called_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("user_cache_path", "user_data_path"):
        monkeypatch.setattr(platformdirs, name, lambda *_, **__: Path("~/.cache/fedbandits"))
    with pytest.raises(OSError, match="has no home folder; set HOME"):
        folders.data_folder()
    assert not list(tmp_path.iterdir())
