"""Bytes beside a session, and where sessions live."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amberlog import SessionReadOnlyError, SessionStore, config

if TYPE_CHECKING:
    from collections.abc import Iterator


def files_below(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())


def test_an_artifact_is_written_beside_the_session(store: SessionStore, tmp_path: Path) -> None:
    written = store.write_artifact("images/cat.png", b"first")
    store.write_artifact("images/cat.png", b"second")

    assert written == tmp_path / "session.artifacts" / "images" / "cat.png"
    assert list(files_below(store.artifacts_dir)) == [written]
    assert written.read_bytes() == b"second"


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/etc/x", "../x", "a/../../x", "a\\..\\x", "C:\\x", "C:x", "\\x", "a\0b"],
)
def test_a_name_that_leaves_the_directory_is_refused(
    name: str, store: SessionStore, tmp_path: Path
) -> None:
    before = set(files_below(tmp_path))

    with pytest.raises(ValueError, match="name must"):
        store.write_artifact(name, b"x")

    assert set(files_below(tmp_path)) == before


def test_a_link_that_leaves_the_directory_is_refused(store: SessionStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (store.artifacts_dir / "link").symlink_to(outside)

    with pytest.raises(ValueError, match="stay inside"):
        store.write_artifact("link/x", b"x")

    assert not list(outside.iterdir())


def test_a_session_that_is_only_read_writes_no_artifact(path: Path, tmp_path: Path) -> None:
    SessionStore(path).close()

    with SessionStore.open_readonly(path) as store:
        directory = store.artifacts_dir
        with pytest.raises(SessionReadOnlyError) as raised:
            store.write_artifact("x", b"x")

    assert raised.value.path == str(path)
    assert directory == tmp_path / "session.artifacts"
    assert not directory.exists()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "home/.kohakuterrarium/sessions"),
        ({"KT_CONFIG_DIR": "kt"}, "kt/sessions"),
        ({"KT_CONFIG_DIR": "kt", "AMBERLOG_CONFIG_DIR": "ours"}, "ours/sessions"),
        ({"KT_CONFIG_DIR": "kt", "KT_SESSION_DIR": "kts"}, "kts"),
        ({"KT_SESSION_DIR": "kts", "AMBERLOG_SESSION_DIR": "ours"}, "ours"),
        ({"KT_SESSION_DIR": "", "KT_CONFIG_DIR": "kt"}, "kt/sessions"),
        ({"KT_SESSION_DIR": "~/mine"}, "home/mine"),
    ],
)
def test_the_session_directory_follows_the_environment(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SESSION_DIR", "CONFIG_DIR"):
        monkeypatch.delenv(f"KT_{name}", raising=False)
        monkeypatch.delenv(f"AMBERLOG_{name}", raising=False)
    monkeypatch.setenv("HOME", "home")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    directory = config.session_dir()

    assert directory == Path(expected)
