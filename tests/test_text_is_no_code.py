"""No text from a user is evaluated: what is given, where, and what the sources call."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.gaussian import expectation
from tpcalc.gaussian.variables import Gaussians
from tpcalc.interpreters import run_program
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, NonlinearOuter, Outer, Scalar, Vector
from tpcalc.reports.cli import main
from tpcalc.studies.fingerprints import content

SOURCES = sorted(Path(tp.__file__).parent.rglob("*.py")) + sorted(Path(__file__).parents[1].glob("proofs/**/*.py"))
EVALUATING = {"eval", "exec", "sympify", "S", "parse_expr", "parse_latex", "nsimplify", "literal_eval", "__import__"}
# these run source that was written here, in names of their own
WRITTEN = {"lowering/source.py", "recursions/cache.py", "drawn/rolled.py"}
PICKLING = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def name_of(node: ast.expr) -> str:
    """eval of a name that is called or handed on, sympify of sp.sympify; nothing of other objects' attributes."""
    if isinstance(node, ast.Name):
        return node.id if node.id != "S" else ""
    of = node.value if isinstance(node, ast.Attribute) else None
    return node.attr if isinstance(node, ast.Attribute) and getattr(of, "id", "") in ("sp", "sympy", "np") else ""


def says(call: ast.Call, keyword: str, value: bool) -> bool:
    return any(k.arg == keyword and getattr(k.value, "value", None) is value for k in call.keywords)


def test_sources_evaluate_no_text_and_unpickle_nothing() -> None:
    assert len(SOURCES) > 400
    for path in SOURCES:
        assert_evaluates_no_text(path)


def assert_evaluates_no_text(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        used = [name_of(node) for node in (call.func, *call.args)]  # called, or handed to something like map
        if used[0] == "sympify" and says(call, "strict", True):
            continue
        handed = {name for node, name in zip(call.args, used[1:]) if isinstance(node, ast.Attribute)}
        own = {"exec"} if f"{path.parent.name}/{path.name}" in WRITTEN else set()
        assert not (EVALUATING - own) & {used[0], *handed}, f"{path.name}:{call.lineno} evaluates"
        if used[0] == "load":
            assert says(call, "allow_pickle", False), f"{path.name}:{call.lineno} may unpickle"
    imported = {module.split(".")[0] for node in ast.walk(tree) for module in (
        [n.name for n in node.names] if isinstance(node, ast.Import)
        else [node.module or ""] if isinstance(node, ast.ImportFrom) else [])}
    assert not PICKLING & imported, path


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    for line in ("sp.sympify(x)", "map(sp.sympify, x)", "sp.S(x)", "eval(x)", "exec(x)", "import pickle", "np.load(x)",
                 "from pickle import loads", "sp.nsimplify(x)", "sp.sympify(x, strict=False)"):
        path = tmp_path / "source.py"
        path.write_text(line + "\n")
        with pytest.raises(AssertionError):
            assert_evaluates_no_text(path)


@pytest.fixture
def code(tmp_path: Path) -> Any:
    """A text that leaves a file where it is evaluated."""
    mark = tmp_path / "evaluated"
    yield f'__import__("pathlib").Path("{mark}").touch()'
    assert not mark.exists(), "the text was evaluated"


H = sp.Symbol("h", real=True)
W, U, XI = Family(Matrix, "W")(), Family(Vector, "U")(), Family(Scalar, "xi")
TASK = tp.Task([1.0], [1.0])
LOCATIONS: dict[str, Callable[[str], Any]] = {
    "DepthScaling alpha": lambda s: tp.DepthScaling(s, .5),
    "DepthScaling gamma": lambda s: tp.DepthScaling(.5, s),
    "DepthScaling branch": lambda s: tp.DepthScaling(branch=s),  # type: ignore[arg-type]
    "DepthScaling base_depth": lambda s: tp.DepthScaling(base_depth=s),  # type: ignore[arg-type]
    "WidthScaling p": lambda s: tp.WidthScaling([s, 0], [0, 0], 0),
    "WidthScaling r": lambda s: tp.WidthScaling([0, 0], [0, 0], s),
    "WidthScaling sizes": lambda s: tp.WidthScaling([0, 0], [0, 0], 0).sizes([1, s, 1]),
    "WidthScaling from_abc": lambda s: tp.WidthScaling.from_abc([0, s], [0, 0], 0),
    "width_recipe": lambda s: tp.width.width_recipe(s, 2),
    "meta_principled": lambda s: tp.meta_principled(s, 2),
    "ntk_exponent": lambda s: tp.ntk_exponent(1, s),
    "web": lambda s: tp.web(s, 0),
    "aspect": lambda s: tp.width.depth_to_width_ratio(s, 1, 0),
    "classify": lambda s: tp.classify(s, .5),
    "interactions": lambda s: tp.theory.interactions(s, .5),
    "phase_diagram": lambda s: tp.phase_diagram().at(s, 1),
    "depth_limit": lambda s: tp.depth_limit(tp.recursion(tp.kets(tp.program(
        tp.ResNet(), tp.SGD(), tp.DepthScaling(*sp.symbols("alpha gamma", real=True)))))).at(alpha=s, gamma=1),
    "audit": lambda s: tp.audit(s, 0),
    "audit eps": lambda s: tp.audit(-1, 0, eps=s),
    "audit optimizer": lambda s: tp.audit(-1, 0, optimizer=s),
    "audit base_depth": lambda s: tp.audit(-1, 0, base_depth=s),  # type: ignore[arg-type]
    "recipe": lambda s: tp.recipe(s),
    "recipe base_depth": lambda s: tp.recipe(base_depth=s),  # type: ignore[arg-type]
    "ResNet phi": lambda s: tp.ResNet(s),
    "ResNet phi function": lambda s: tp.ResNet(sp.Function(s)(H)),
    "ResNet block": lambda s: tp.ResNet(block=s),
    "SGD lr": lambda s: tp.SGD(s),  # type: ignore[arg-type]
    "SGD lr list": lambda s: tp.SGD([s]),  # type: ignore[list-item]
    "SGD momentum": lambda s: tp.SGD(momentum=s),  # type: ignore[arg-type]
    "SGD dampening": lambda s: tp.SGD(dampening=s),  # type: ignore[arg-type]
    "SignSGD lr": lambda s: tp.SignSGD(s),
    "Adam lr": lambda s: tp.Adam(s),
    "Adam beta1": lambda s: tp.Adam(beta1=s),
    "Adam eps": lambda s: tp.Adam(eps=s),
    "Adam weight_decay": lambda s: tp.Adam(weight_decay=s),
    "Task inputs": lambda s: tp.Task([s], [1.0]),
    "Task targets": lambda s: tp.Task([1.0], s),
    "Task loss": lambda s: tp.Task([1.0], [1.0], loss=s),
    "train depth": lambda s: tp.train(tp.ResNet(), TASK, tp.SGD(), tp.DepthScaling(), s),
    "train width": lambda s: tp.train(tp.ResNet(), TASK, tp.SGD(), tp.DepthScaling(), 2, s),
    "train keep_nodes": lambda s: tp.train(tp.ResNet(), TASK, tp.SGD(), tp.DepthScaling(), 2, keep_nodes=[s]),
    "family name": lambda s: Family(Scalar, s)[0],
    "family index": lambda s: XI[s],
    "family indices": lambda s: XI[((s,),)],
    "MatVec": lambda s: MatVec(s, U),
    "MatVec vector": lambda s: MatVec(W, s),
    "Mean": lambda s: Mean(s),
    "Outer": lambda s: Outer(s, U),
    "NonlinearOuter": lambda s: NonlinearOuter(s),
    "expectation": lambda s: expectation(s, Gaussians({(H, H): 1})),  # type: ignore[arg-type]
    "compiled data": lambda s: tp.recursion(tp.kets(tp.program(
        tp.ResNet(), tp.SGD(), tp.DepthScaling()))).compile()(2, [s], [1.0]),
    "run_program data": lambda s: run_program(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()),
                                              {"T": 1, "L": 1}, {"xi": [s], "y": [1.0]}, 4),
    "tangent variance": lambda s: tp.theory.gradient_correlation(tp.ResNet(), s),  # type: ignore[arg-type]
    "gradient flow time": lambda s: tp.studies.gradient_flow(
        tp.ResNet(), TASK, s, tp.DepthScaling(), 2),  # type: ignore
}


@pytest.mark.parametrize("location", LOCATIONS)
def test_text_is_refused_and_not_evaluated(location: str, code: str) -> None:
    with pytest.raises(ValueError):
        LOCATIONS[location](code)


@pytest.mark.parametrize("command", ["classify --alpha {}", "train --lr {}", "train --depth {}", "train --task {}",
                                     "classify --phi {}", "audit --branch {}", "audit --recipe {}", "prove {}",
                                     "audit --branch 1 --optimizer {}", "derive --gamma {}"])
def test_the_command_line_evaluates_nothing(command: str, code: str, capsys: Any, tmp_path: Path) -> None:
    assert main([word.format(code) for word in command.split()] + (["-o", str(tmp_path)] if "prove" in command else [])
                ) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_numbers_in_text_that_would_take_all_memory_are_refused(capsys: Any) -> None:
    assert main(["classify", "--alpha", "1e999999999"]) == 2
    assert "expected an exact number" in capsys.readouterr().err


def test_resumed_results_that_are_none_are_computed_again(tmp_path: Path, code: str) -> None:
    arguments = tp.ResNet(), TASK, tp.SGD(), tp.DepthScaling(), [2], [0.5, 1.0]
    first = tp.transfer(*arguments, resume=tmp_path)
    files = sorted(tmp_path.glob("*.json"))
    assert len(files) == 2
    for damaged in (code, [code, ""], ["1", ""], [float("nan"), ""], [1.0], None, [True, ""], [1.0, 2.0], {"a": 1}):
        for file in files:
            file.write_text(json.dumps({"key": file.stem, "result": damaged}))
        again = tp.transfer(*arguments, resume=tmp_path)
        assert np.array_equal(again.losses, first.losses)


class Scaled:
    def __init__(self, by: Any) -> None:
        self.by = by

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(self.by * 0.5 * np.sum((f - y)**2, axis=-1))

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(self.by * (f - y))


def test_losses_are_told_apart_by_content(tmp_path: Path) -> None:
    assert content(Scaled(1.0)) == content(Scaled(1.0)) != content(Scaled(2.0))
    assert content(Scaled(np.ones(2))) == content(Scaled(np.ones(2))) != content(Scaled(np.zeros(2)))
    assert content(np.sin) != content(np.cos) if hasattr(np.sin, "__module__") else True
    losses = [tp.transfer(tp.ResNet(), tp.Task([1, .5], [1, 1], Scaled(by)), tp.SGD(), tp.DepthScaling(), [2], [1.0],
                          resume=tmp_path).losses.item() for by in (1.0, 2.0, 1.0)]
    assert losses[0] == losses[2] != losses[1]
    for hidden in (Scaled(lambda: 1), Scaled(iter([1])), lambda: 1):
        with pytest.raises(ValueError):
            content(hidden)


@pytest.mark.parametrize("name", ["half", "one", "0.5 0.5", "1/0"])
def test_names_that_are_no_numbers_are_refused(name: str) -> None:
    for refused in (lambda: tp.DepthScaling(name, .5), lambda: tp.Adam(beta1=name),
                    lambda: tp.SGD(name)):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="got .*; expected a real number"):
            refused()


def test_text_of_numbers_is_read_as_fractions() -> None:
    assert tp.SGD("1/2").lr == 0.5 and tp.SGD(["1/4", "1"]).lr == (0.25, 1.0)  # type: ignore[arg-type,list-item]
    assert tp.Adam(beta1="1/2").beta1 == sp.Rational(1, 2)
    assert tp.Task(["1/2", "1e-1"], [1, 1]).inputs.ravel().tolist() == [0.5, 0.1]
    assert tp.DepthScaling(branch="-1/3").branch == -sp.Rational(1, 3)  # type: ignore[arg-type]
