"""Keys work from an installed package, without the checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CITE = """
import tpcalc, tpcalc.ledger.catalogue as catalogue
keys = catalogue.keys()
print(tpcalc.__file__, catalogue.sys.modules["tpcalc.proofs"].__file__, len(keys), sep="\\n")
"""
STATUS = """
print(tpcalc.theory.cite("tensor_programs_vi/outer_product"))
"""


def cite(folder: Path, code: str = CITE, **more: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env={**os.environ, **more}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_cite_from_a_folder_elsewhere(tmp_path: Path) -> None:
    """Whatever is installed here: a wheel under tox, a checkout in development."""
    assert cite(tmp_path, CITE + STATUS)[-1] == "derived throughout"


@pytest.mark.skipif(not (ROOT / "setup.cfg").exists(), reason="no checkout to install from")
def test_cite_from_what_a_wheel_holds(tmp_path: Path) -> None:
    """Build the package's files as a wheel does, and use nothing else; every file of the checkout must be there."""
    pytest.importorskip("setuptools", reason="setuptools builds the files of the wheel")
    checkout, installed = tmp_path / "checkout", tmp_path / "installed"
    checkout.mkdir()
    for name in ("tpcalc", "proofs"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    done = subprocess.run([sys.executable, "setup.py", "-q", "build_py",
                           "--build-lib", str(installed)], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = {path.relative_to(checkout) for path in (checkout / "tpcalc").rglob("*") if path.is_file()}
    wanted |= {Path("tpcalc") / path.relative_to(checkout) for path in (checkout / "proofs").rglob("*.py")}
    assert {path.relative_to(installed) for path in installed.rglob("*") if path.is_file()} >= wanted
    shutil.rmtree(checkout)
    lines = cite(tmp_path, PYTHONPATH=str(installed))
    assert all(line.startswith(str(installed)) for line in lines[:2]) and int(lines[2]) >= 15
