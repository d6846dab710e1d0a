"""Programs that may be missing: seen to run, or missing with a reason and a way to get them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.tools import Missing, find_tool


@pytest.fixture(autouse=True)
def _forget_what_was_found() -> Iterator[None]:
    find_tool.cache_clear()
    yield
    find_tool.cache_clear()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sdk" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(path: Path, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_one_that_runs(programs: Path) -> None:
    expected = put(programs / "terraform")
    assert find_tool("terraform") == expected


def test_one_that_is_not_there(programs: Path) -> None:
    missing = find_tool("terraform")
    assert isinstance(missing, Missing)
    assert "not on PATH" in str(missing)
    assert "https://" in str(missing)


def test_a_stand_in_that_does_not_run(programs: Path) -> None:
    put(programs / "java", status=1)
    missing = find_tool("java")
    assert isinstance(missing, Missing)
    assert "does not run" in missing.reason


def test_the_emulator_lies_beside_gcloud_and_needs_java(programs: Path) -> None:
    put(programs / "gcloud")
    emulator = put(
        programs.parent / "platform" / "pubsub-emulator" / "bin" / "cloud-pubsub-emulator"
    )
    without_java = find_tool("pubsub-emulator")
    assert isinstance(without_java, Missing)
    assert "Java" in without_java.reason

    find_tool.cache_clear()
    put(programs / "java")
    assert find_tool("pubsub-emulator") == emulator

    find_tool.cache_clear()
    emulator.unlink()
    without_component = find_tool("pubsub-emulator")
    assert isinstance(without_component, Missing)
    assert "gcloud components install" in without_component.how_to_get


def test_a_misspelt_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="known are gcloud"):
        find_tool("terrafrom")
