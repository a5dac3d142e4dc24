"""Files that were damaged: what is loaded equals what was written, or a ``ValueError`` names the file, and nothing else
happens."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc._files import digest_of
from tpcalc.reports.options import load_task
from tpcalc.reports.store import Store
from tpcalc.studies.jobs import FinishedJobs

RNG = np.random.default_rng(35)
TASK = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5], probes=[0.3])
PROBLEMS = {
    "linear": tp.Problem(tp.ResNet(), TASK, tp.SGD([0.5, 0.4, 0.3], momentum=0.5),
                         tp.DepthScaling("1/3", sp.Rational(2, 3), base_depth=2), 4),
    "real": tp.Problem(tp.ResNet("SiLU", "mlp", "rms", mlp_ratio=3), TASK, tp.Clipped(tp.SGD(0.1), 1.0),
                       tp.DepthScaling(), 2, 8),
    "by matrix": tp.Problem(tp.ResNet("linear", "mlp"), TASK, tp.SGD(), tp.Parametrization(
        depth={"alpha": 1, "W1": 0, "W2": "1/2"}), 2)}
CSV = "x1,x2,y\n1,2,3\n-0.5,1e-3,4\n7,8,9\n"
HUGE = [1e308, 10**400, "1e999999999", ["1e999999999"], ["10**10**10"], ["9" * 5000], [f"1/{10**30}"], 2**53 + 1]
STRANGE = [None, True, -1, 0, "", "zzz", [], {}, [1], ["1/0"], {"each": 1}, {"kind": "ResNet"}, {"kind": []},
           {"by name": []}, float("nan"), *HUGE]


def damages(whole: bytes, number: int) -> Iterator[bytes]:
    """The file cut off, with bytes flipped, with parts missing, doubled or exchanged."""
    for end in (0, 1, 4, *RNG.integers(len(whole), size=number // 2)):
        yield whole[:end]
    for _ in range(number):
        for count in (1, 8):
            flipped = bytearray(whole)
            for location in RNG.integers(len(whole), size=count):
                flipped[location] ^= 1 << int(RNG.integers(8))
            yield bytes(flipped)
        start, end = sorted(RNG.integers(len(whole), size=2))
        yield whole[:start] + whole[end:]
        yield whole[:end] + whole[start:]
    yield from (b"\xff" + whole, b"\xef\xbb\xbf" + whole, whole.decode("latin-1").encode("utf-16"), b"[" * 100_000)


def changes(value: Any) -> Iterator[Any]:
    """What JSON holds, with one part dropped, added, or exchanged for something strange."""
    yield STRANGE[RNG.integers(len(STRANGE))]
    if isinstance(value, dict):
        for name, part in value.items():
            yield {key: one for key, one in value.items() if key != name}
            yield {**{key: one for key, one in value.items() if key != name}, name + "s": part}
            yield from ({**value, name: changed} for changed in changes(part))
    elif isinstance(value, list):
        yield [*value, *value]
        yield from ([*value[:i], changed, *value[i + 1:]] for i, part in enumerate(value) for changed in changes(part))


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is written, and read; strict: is what is read equal to what was written, or nothing."""

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    strict: bool = True


def save_run(path: Path) -> tp.Run:
    run = tp.train(PROBLEMS["linear"])
    run.save(path)
    return run


def save_arrays(path: Path) -> None:
    np.savez(path, inputs=np.ones((4, 2)), targets=np.ones((4, 1)))


KINDS = (Kind("run.npz", save_run, tp.Run.load),
         Kind("task.npz", save_arrays, lambda path: load_task(str(path), None, None, 0), strict=False),
         Kind("task.csv", lambda path: path.write_text(CSV), lambda path: load_task(str(path), None, None, 0),
              strict=False))


def outcome(kind: Kind, path: Path, written: Any) -> str:
    """What is wrong with how a file was read, or nothing."""
    try:
        found = kind.read(path)
    except ValueError as error:
        return "" if type(error) is ValueError and path.name in str(error) else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if found == written or not kind.strict else "another value is read"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_damaged_bytes_are_refused_or_change_nothing(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / kind.name
    written = kind.write(path)
    whole = path.read_bytes()
    assert outcome(kind, path, written) == ""
    wrong = []
    for damaged in damages(whole, 60):
        path.write_bytes(damaged)
        wrong.append(outcome(kind, path, written))
    assert not [one[:300] for one in wrong if one]


@pytest.mark.parametrize("sealed", [False, True], ids=["as it is", "with a digest that fits"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_changed_words_of_a_run_are_refused_by_name(name: str, sealed: bool, tmp_path: Path) -> None:
    """Also of a file whose digest was made to fit, which can be a run of another problem and nothing else."""
    path = tmp_path / "run.npz"
    run = tp.train(PROBLEMS[name])
    run.save(path)
    arrays = dict(np.load(path))
    words = json.loads(str(arrays.pop("words")))
    every = list(changes({key: part for key, part in words.items() if key != "digest"}))
    kind, wrong = Kind("run.npz", save_run, tp.Run.load, strict=not sealed), []
    for changed in (every if sealed else every[::7]):
        if isinstance(changed, dict):
            changed = {**changed, "digest": digest_of(changed, arrays) if sealed else words["digest"]}
        np.savez(path, words=np.array(json.dumps(changed)), **arrays)
        answer = outcome(kind, path, run)
        wrong += [f"{changed}: {answer}"] if answer else []
    assert len(every) > 60 and not [one[-300:] for one in wrong]


def test_changed_arrays_of_a_run_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    run = save_run(path)
    arrays = dict(np.load(path))
    words = json.loads(str(arrays.pop("words")))
    words.pop("digest")
    wrong = []
    for name, array in arrays.items():
        for changed in (None, array[..., None], array[:0], array.astype(complex), array.astype(str), array > 0,
                        array.astype("datetime64[s]"), np.array(np.nan), array.astype(object)):
            there = {key: one for key, one in arrays.items() if key != name}
            there |= {} if changed is None else {name: changed}
            kind = Kind("run.npz", save_run, tp.Run.load, strict=changed is not None or "probe" not in name)
            for digest in ("", digest_of(words, {key: one for key, one in there.items() if one.dtype != object})):
                np.savez(path, words=np.array(json.dumps({**words, "digest": digest})), **there)
                answer = outcome(kind, path, run)
                wrong += [f"{name}, {changed!r}: {answer}"] if answer else []
    assert not wrong


def test_an_archive_with_other_members(tmp_path: Path) -> None:
    """Text among arrays, a method of compression that is none, and one array alone."""
    path = tmp_path / "run.npz"
    for kind in KINDS[:2]:
        path = tmp_path / kind.name
        kind.write(path)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("notes.txt", "words")
        with pytest.raises(ValueError, match=f"{kind.name}.*notes.txt"):
            kind.read(path)
        with open(path, "wb") as file:
            np.save(file, np.ones(3))
        with pytest.raises(ValueError, match=f"{kind.name}.*without a name"):
            kind.read(path)


@dataclass(frozen=True)
class Number:
    """A result of a stage."""

    value: float
    rows: list[float]


def test_a_damaged_stage_is_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "stage.json"

    def run() -> Any:
        return Store(tmp_path).run("stage", {"alpha": 1}, Number, lambda: Number(0.1, [1.5, 2.5]))

    def result() -> Any:
        return run().result

    assert not run().reused and run().reused
    whole = path.read_bytes()
    words = [json.dumps(one).encode() for one in changes(json.loads(whole))]
    for damaged in (*damages(whole, 30), *words):
        path.write_bytes(damaged)
        assert result() == Number(0.1, [1.5, 2.5]), damaged[:200]
    path.write_bytes(b"\xef\xbb\xbf" + whole)
    assert run().reused


def test_a_damaged_job_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    FinishedJobs(tmp_path).put("job", [0.25, ""])
    assert FinishedJobs(tmp_path).__contains__("job")
    whole = path.read_bytes()
    for damaged in (*damages(whole, 30), *(json.dumps(one).encode() for one in changes(json.loads(whole)))):
        path.write_bytes(damaged)
        found = FinishedJobs(tmp_path)
        assert "job" not in found or found["job"] == [0.25, ""], damaged[:200]


@pytest.mark.parametrize("line", ["1", "1,2", "1,2,3,4", "1,2,", "a,b,c"])
def test_every_row_of_a_table_has_as_many_numbers_as_its_header(line: str, tmp_path: Path) -> None:
    path = tmp_path / "task.csv"
    path.write_text(CSV + line + "\n1,1,1\n")
    with pytest.raises(ValueError, match=re.escape(f"task.csv': line 5 has '{line}'; expected 3 numbers")):
        load_task(str(path), None, None, 0)


def test_a_table_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "task.csv"
    path.write_text(CSV)
    plain = load_task(str(path), None, None, 0)
    path.write_text(CSV.replace("\n", "\r\n"), encoding="utf-8-sig")
    marked = load_task(str(path), None, None, 0)
    assert np.array_equal(marked.inputs, plain.inputs) and np.array_equal(marked.targets, plain.targets)


ODD = {  # what is in a .csv behind its header, and the line that is refused, none where it is read as two rows of two
    '"1","0.5"\r\n\r\n 2 , 1 \r\n': 0, "1,1\n   \n2,3\n": 0, "1,1\r2,3\r": 0, "\u0661,1\n2,3\n": 0,
    '"1\n",1\n2,3': 0, '1,"1,000"\n2,3\n': 2, "\n\n1,nan\n2,3\n": 4, "1,2\n1e999,3\n": 3, "1,2\n-inf,3": 3,
    "1,2\n\n1_0,3\n": 4,
    "1,\n2,3": 2, ",,\n1,2": 2, "0x10,2\n": 2, "1/2,2\n": 2, "\u22121,2\n": 2, "1,2\x00\n": 2}


@pytest.mark.parametrize("content", ODD, ids=ascii)
def test_odd_lines_are_read_as_they_are_or_refused_by_their_number(content: str, tmp_path: Path) -> None:
    path = tmp_path / "task.csv"
    path.write_text("x1,y1\n" + content, encoding="utf-8", newline="")
    if not ODD[content]:
        task = load_task(str(path), None, None, 0)
        assert (task.inputs.shape, task.targets.shape) == ((1, 2, 1), (1, 2, 1))
        return
    with pytest.raises(ValueError, match=rf"task.csv': line {ODD[content]} has .*; expected 2 (finite )?numbers"):
        load_task(str(path), None, None, 0)
