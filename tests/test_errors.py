"""Errors as control flow: a refusal is caught as ``NotCovered``, alone; what else is raised is a fault, and is seen."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import Iterator

import pytest

import tpcalc as tp

LOCATIONS = (Path(tp.__file__).parent, Path(__file__).parents[1] / "proofs")
WIDE = {"ValueError", "TypeError", "KeyError", "AttributeError", "IndexError", "NameError", "RuntimeError", "EOFError",
        "NotImplementedError", "AssertionError", "ArithmeticError", "LookupError", "Exception", "BaseException", ""}
CONVERSIONS = {  # one call, of something that is not the package's: what it does not take, it says by such an error
    "tpcalc/_checks.py short": "repr, of whole numbers with thousands of digits",
    "tpcalc/interpreters/given.py of": "float, of a sympy expression",
    "tpcalc/lowering/plan.py __call__": "float, of a sympy expression",
    "tpcalc/interpreters/given.py _from_text": "text of the user's as a number",
    "tpcalc/models/activations.py require_finite": "sympy's search for poles, which it gives up",
    "tpcalc/reports/arguments.py checked": "an argument of the shell's",
    "tpcalc/optimizers/faithful.py _with_symbol_for_eps": "a dataclass of the user's, with another eps",
    "tpcalc/torch/families.py settable_of": "the arguments of a function of the user's, which may not say them",
    "tpcalc/interpreters/lowered.py _function": "what sympy wrote, of functions that NumPy and SciPy may lack",
}
BOUNDARIES = {  # where the package meets what is not its own, and several calls read it
    "tpcalc/_checks.py finite_array": "an object of the user's as numbers, by its own methods and by NumPy's",
    "tpcalc/_checks.py real_number": "likewise, as one number",
    "tpcalc/_checks.py _exactly": "likewise, as an exact one",
    "tpcalc/_checks.py asked": "a function of the user's",
    "tpcalc/torch/reading/building.py network_of": "a model of the user's, on a batch that nobody asked it to take",
    "tpcalc/torch/reading/experts.py choices_before_a_value": "likewise, without values",
    "tpcalc/torch/configurations.py configuration_of": "a file of the user's",
    "tpcalc/torch/configurations.py _said": "a configuration of another library, of settings that may not do for one",
    "tpcalc/derivations/mathml.py _element": "the converter's errors for formulas that are not well formed",
    "tpcalc/_files.py arrays_of": "a file that may be damaged",
    "tpcalc/torch/saved_plans.py load": "likewise",
    "tpcalc/results/saved.py damaged": "likewise, and what is in it",
    "tpcalc/results/saved.py _read_part": "fields of a file that a class does not take",
    "tpcalc/_shown.py or_why": "a part of a text that is found when it is printed: printing raises nothing",
    "tpcalc/ledger/checking.py attempt": "a check of the ledger that raises has failed, and says what was raised",
    "tpcalc/ledger/spoiling.py _attempted": "a node of a statement that does not take what it would be spoiled to",
    "tpcalc/optimizers/faithful.py direction": "the direction of an optimizer of the user's, of what is no matrix",
    "tpcalc/lowering/recursions/cache.py load_source": "raised again, once the half-made module is gone",
    "tpcalc/_files.py kept_json": "a file that is damaged keeps nothing",
    "tpcalc/reports/options.py load_task": "a file of the user's",
    "tpcalc/figures/images.py _own": "likewise",
    "tpcalc/reports/options.py _read_csv": "a line of a file of the user's",
    "tpcalc/reports/cli.py main": "the end of the shell: one line of what was raised, and exit status 2",
}


def kinds(of: ast.expr | None) -> set[str]:
    """The names of what is caught."""
    parts = of.elts if isinstance(of, ast.Tuple) else [of]
    return {"" if part is None else ast.unparse(part).split(".")[-1] for part in parts}


def catches(tree: ast.AST, function: str = "") -> Iterator[tuple[str, set[str], list[ast.stmt]]]:
    """Of all that catches, in order: the function around it, what is caught, and what it is caught from."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield function, kinds(handler.type), node.body
        if isinstance(node, ast.With):
            for call in (item.context_expr for item in node.items):
                if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "suppress":
                    yield function, {one for argument in call.args for one in kinds(argument)}, node.body
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        yield from catches(node, node.name if inside else function)  # type: ignore[attr-defined]


def is_one_call(body: list[ast.stmt]) -> bool:
    """One statement with one call, but for what its arguments are made of."""
    if len(body) != 1 or not isinstance(body[0], (ast.Return, ast.Assign, ast.Expr)):
        return False
    return isinstance(body[0].value, ast.Call)


def faults(location: str, source: str) -> list[str]:
    """What a file catches that it may not."""
    found = []
    for function, names, body in catches(ast.parse(source)):
        where = f"{location} {function}"
        if names & WIDE and where not in BOUNDARIES and not (where in CONVERSIONS and is_one_call(body)):
            found.append(f"{where} catches {', '.join(sorted(names))}")
        if names & {"ImportError", "ModuleNotFoundError"} and not all(is_import(one) for one in body):
            found.append(f"{where} catches {', '.join(sorted(names))} of more than an import")
    return found


def is_import(statement: ast.stmt) -> bool:
    called = getattr(statement, "value", None)
    return isinstance(statement, (ast.Import, ast.ImportFrom)) or (
        isinstance(called, ast.Call) and ast.unparse(called.func).endswith("import_module"))


@lru_cache(maxsize=1)
def files() -> dict[str, str]:
    """place -> source, of the package and of the proofs."""
    return {path.relative_to(top.parent).as_posix(): path.read_text("utf-8") for top in LOCATIONS
            for path in sorted(top.rglob("*.py")) if "proofs" not in path.relative_to(top).parts}


def test_nothing_is_caught_that_a_fault_may_be() -> None:
    sources = files()
    assert len(sources) > 400 and not [fault for location,
                                       source in sources.items() for fault in faults(location, source)]


def test_every_boundary_is_there() -> None:
    there = {f"{location} {function}" for location, source in files().items()
             for function, names, _ in catches(ast.parse(source)) if names & WIDE}
    assert there == {*CONVERSIONS, *BOUNDARIES} and not {*CONVERSIONS} & {*BOUNDARIES}


@pytest.mark.parametrize("source", [
    "try:\n    check()\nexcept ValueError:\n    pass", "try:\n    check()\nexcept:\n    pass",
    "def f():\n    try:\n        check()\n    except (Divergence, builtins.ValueError):\n        return 1",
    "with suppress(KeyError):\n    check()", "with open(a), contextlib.suppress(OSError, TypeError):\n    check()",
    "try:\n    import a\n    run()\nexcept ImportError:\n    pass"])
def test_the_walk_sees_what_is_caught(source: str) -> None:
    assert len(faults("somewhere.py", source)) == 1
    narrow = re.sub(r"(builtins\.)?(Value|Key|Type)Error", "NotCovered", source).replace("except:", "except OSError:")
    assert not faults("somewhere.py", narrow.replace("    run()\n", ""))


def test_a_conversion_is_one_call() -> None:
    where = next(iter(CONVERSIONS))
    location, name = where.split(" ")
    more = f"def {name}(a):\n    try:\n        x = repr(a)\n        y = x + 1\n    except ValueError:\n        return 1"
    assert faults(location, more) and not faults(location, more.replace("        y = x + 1\n", ""))
