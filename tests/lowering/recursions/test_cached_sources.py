"""Generated sources: what is run is what was generated, whatever lies in the cache folder."""

from __future__ import annotations

import importlib.util
import marshal
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tpcalc.lowering.recursions import cache
from tpcalc.lowering.recursions.cache import cache_folder, load_source

KERNEL = "from numba import njit\n\n\n@njit(cache=True)\ndef kernel(x):\n    return x + {}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache folder of a test, and a process that has neither loaded a source nor warned."""
    before = set(sys.modules)
    monkeypatch.setenv("TPCALC_CACHE_DIR", str(tmp_path / "deep" / "er"))
    for known in (cache._warn, cache._private):
        known.cache_clear()
    yield tmp_path / "deep" / "er"
    for name in set(sys.modules) - before:
        if name.startswith("tpcalc_generated_"):
            del sys.modules[name]


def anew(source: str) -> ModuleType:
    """The module as another process would load it."""
    sys.modules.pop(load_source(source).__name__)
    return load_source(source)


def test_sources_are_named_by_their_content(folder: Path) -> None:
    first = load_source("VALUE = 1\n")
    assert load_source("VALUE = 1\n") is first and load_source("VALUE = 2\n").VALUE == 2
    assert len(list(cache_folder().glob("*.py"))) == 2 and len(list(folder.iterdir())) == 3  # nothing half written
    assert Path(str(first.__file__)).read_text() == "VALUE = 1\n"


def test_a_folder_that_cannot_be_written_is_replaced(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("in the way")
    assert load_source("VALUE = 3\n").VALUE == 3


def test_sources_go_to_the_folder_that_the_user_has_for_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPCALC_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own" / "tpcalc"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "tpcalc"


def test_compiled_files_beside_a_source_are_not_run(folder: Path) -> None:
    """Python takes a compiled file for the source's where time and size agree."""
    source = "VALUE = 4\n"
    path = Path(str(load_source(source).__file__))
    planted = Path(importlib.util.cache_from_source(str(path)))
    stamp = path.stat()
    head = importlib.util.MAGIC_NUMBER + bytes(4) + b"".join(
        int(n).to_bytes(4, "little") for n in (stamp.st_mtime, stamp.st_size))
    planted.write_bytes(head + marshal.dumps(compile("VALUE = 'planted'", str(path), "exec")))
    spec = importlib.util.spec_from_file_location("planted", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.VALUE == "planted" and anew(source).VALUE == 4


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe\x00V", b"VALUE = 6\n", b"VALUE = 5",
                                    "VALUE = 5\n".encode("utf-16")],
                         ids=["empty", "no UTF-8", "another", "cut", "UTF-16"])
def test_damaged_sources_are_written_again(folder: Path, damage: bytes) -> None:
    source = "VALUE = 5\n"
    path = Path(str(load_source(source).__file__))
    path.write_bytes(damage)
    assert anew(source).VALUE == 5 and path.read_bytes() == source.encode()


def test_text_beyond_ascii_is_kept_in_any_locale(folder: Path) -> None:
    code = ("import sys\nfrom tpcalc.lowering.recursions.cache import load_source\nsource = 'A = \"\\u03b1\"\\n'\n"
            "sys.modules.pop(load_source(source).__name__)\nprint(ascii(load_source(source).A))")
    found = subprocess.run([sys.executable, "-X", "utf8=0", "-c", code], capture_output=True, text=True, check=True,
                           env={**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"})
    assert found.stdout.strip() == r"'\u03b1'"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no such owners")
@pytest.mark.parametrize("location", ["folder", "compiled", "linked"])
@pytest.mark.parametrize("change", ["group", "world", "owner"])
def test_folders_that_others_write_to_are_not_used(folder: Path, location: str, change: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither they nor the folder of compiled files in them, from which numba loads machine code."""
    load_source("VALUE = 7\n")
    opened = folder / "__pycache__" if location == "compiled" else folder
    if location == "linked":
        link = folder.with_name("link")
        link.symlink_to(folder)
        monkeypatch.setenv("TPCALC_CACHE_DIR", str(link))
    if change == "owner":
        monkeypatch.setattr(os, "getuid", lambda: opened.stat().st_uid + 1)
    else:
        opened.chmod(0o770 if change == "group" else 0o707)
    before = sorted(folder.rglob("*"))
    with pytest.warns(RuntimeWarning, match="belongs to user" if change == "owner" else "written by others") as caught:
        modules = [load_source(f"VALUE = {value!r}\nPLACE = {(location, change)}\n") for value in (8, 9)]
    assert len(caught) == 1 and [module.VALUE for module in modules] == [8, 9]
    own = Path(str(modules[0].__file__)).parent
    assert folder not in (own, *own.parents) and own.stat().st_mode & 0o077 == 0
    assert sorted(folder.rglob("*")) == before


def test_an_own_folder_is_taken_without_a_word(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is made is closed to others, also for users whose files are their group's by default."""
    before = os.umask(0o002)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert Path(str(anew("VALUE = 10\n").__file__)).parent == folder
    finally:
        os.umask(before)


def test_numba_finds_what_it_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import config

    if config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    monkeypatch.setattr(config, "CACHE_DIR", "")
    source = KERNEL.format(1)
    assert load_source(source).kernel(1) == 2
    again = anew(source).kernel
    assert again(1) == 2 and sum(again.stats.cache_hits.values()) == 1
    assert list((folder / "__pycache__").glob("*.nbi"))
