"""The public interface as calls with right arguments, and for every parameter the values that are wrong there.

Cases come from signatures: a parameter's name says what belongs there (``KINDS``), and all of ``VALUES`` but what the
kind admits are wrong. A public call, or a parameter, that no table knows is an error of ``cases``: new calls need a
line here before they can be tested, and are not tested by accident.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import FunctionType
from typing import Any, Callable, Iterator

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.tune.audit import Audit
from tpcalc.tune.recipe import Recipe
from tpcalc.tune.table import NamedRecipes
from tpcalc.verdicts import Verdict
from tpcalc.verdicts.phases import PhaseDiagram, PhaseRegion

NET, OPT, SCALE = tp.ResNet(), tp.SGD(0.5), tp.DepthScaling()
TASK = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5], probes=[[0.5]])
PROBLEM = tp.Problem(NET, TASK, OPT, SCALE, depth=4)
ATTENTION = tp.theory.AttentionLayer(2, points=2, scrambles=2)

RATES = 2.0 ** np.arange(-8, 1)
SWEEP = tp.studies.HorizonSweep([4, 4, 4], [10, 40, 160], RATES, [
    (np.log(RATES) - np.log(best)) ** 2 for best in (0.2, 0.1, 0.04)])

SAVED = Path(mkdtemp()) / "run.npz"

VALUES: dict[str, Any] = {
    "None": None, "True": True, "a word": "magic", "no word": "", "a number as text": "1/2", "bytes": b"bytes",
    "1.5": 1.5, "-1": -1, "-0.5": -0.5, "0": 0, "7": 7, "a third": Fraction(1, 3), "huge": 10**400, "nan": float("nan"),
    "a huge decimal": Decimal("1e999999999"), "a huge text": "1e999999999",
    "a huge float": sp.sympify(Decimal("1e99999999")), "a huge power": sp.Pow(10, 10**9, evaluate=False),
    "inf": float("inf"), "complex": 1j, "an empty list": [], "a list of None": [None], "a list of words": ["a", "b"],
    "a list of nan": [float("nan")], "falling numbers": [3, 2], "halves": [0.5, 1.5], "a pair": (0, 0),
    "a far pair": (9, 9), "a dict": {}, "a set": {1}, "an object": object(), "a class": int, "a function": len,
    "a matrix": np.ones((2, 2)), "complex numbers": np.array([1j, 2]), "text in an array": np.array(["a"]),
    "objects": np.array([None, {}], dtype=object), "a symbol": sp.Symbol("s"), "oo": sp.oo, "I": sp.I,
    "range": range(3), "Ellipsis": Ellipsis, "a module": np, "a network": NET, "networks": tp.ResNet, "a task": TASK,
    "an optimizer": OPT, "a scaling": SCALE, "a problem": PROBLEM, "a parametrization": tp.Parametrization()}

REALS = {"1.5", "-1", "-0.5", "0", "7", "a third", "a number as text"}
POSITIVE = {"1.5", "7", "a third", "a number as text"}
SHARES = {"0", "a third", "a number as text"}
POWERS = {"-1", "0", "-0.5", *SHARES}
ARRAYS = {"falling numbers", "halves", "a pair", "a far pair", "range"}
FUNCTIONS = {"a function", "a class", "networks"}
ANY = "optional "  # and None
KINDS: dict[str, set[str]] = {  # what is right, or not wrong by itself
    "word or scale": {"a scaling", "a parametrization"},
    "nothing": set(), "word": set(), "growing": set(), "mapping": set(), "loss": set(), "outputs": set(),
    "result": set(), "matrix": set(), "axes": {"None"}, "executor": {"None"}, "methods": {"None"},
    "real": REALS, "exponent": REALS | {"a symbol"}, "power": POWERS, "whole power": POWERS | {"7"},
    "any power": POWERS | {"1.5", "7"}, "nonzero": REALS - {"0"}, "positive": POSITIVE, "nonnegative": POSITIVE | {"0"},
    "symbolic nonnegative": POSITIVE | {"0", "a symbol"}, "symbolic share": SHARES | {"a symbol"},
    "share": SHARES, "shares": {"a pair", "None"}, "rates": REALS | ARRAYS | {"an empty list"},
    "symbolic rates": REALS | ARRAYS | {"an empty list", "a symbol"}, "whole": {"7"}, "whole or 0": {"7", "0"},
    "none yet": {"0"}, "flag or words": {"True", "an empty list"},
    "size": {"7", "oo", "inf"}, "flag": {"True"}, "bit": {"0", "True"}, "net": {"a network"},
    "real or scale": REALS | {"a scaling", "a parametrization"}, "net or problem": {"a network", "a problem"},
    "task": {"a task"}, "opt": {"an optimizer"}, "scale": {"a scaling", "a parametrization"},
    "width scaling": set(),
    "settings": {"a dict"}, "depth scaling": {"a scaling"},
    "problem": {"a problem"}, "optimizer name": {"an optimizer"}, "depths": {"falling numbers"},
    "depths or none": {"falling numbers", "an empty list"}, "rising": {"halves"},
    "any word": {"a word", "a number as text", "a huge text", "no word"},
    "path": {"a word", "a number as text", "a huge text"},
    "function": FUNCTIONS, "activation": {"a symbol"}, "block": FUNCTIONS, "time": SHARES,
    "times": SHARES | {"a pair", "an empty list"}, "nodes": SHARES | {"None", "a pair"}, "step": {"0", "a pair"},
    "step or start": {"0", "-1", "a pair"}, "inputs": REALS | ARRAYS | {"a matrix"}, "probes": {"None"} | ARRAYS,
    "exponents": {"falling numbers", "halves", "a pair", "a far pair"}, "symbolic real": REALS | {"a symbol"},
    "half or one": {"a number as text"}, "pair of reals": {"falling numbers", "halves", "a far pair"}, "layers": {"7"},
    "schedule": {"range"}, "wishes": {"an empty list"},
    "weights": {"None", "a dict"}, "array namespace": {"a module"}, "device": set(VALUES),
    "texts": {"an empty list", "a list of words"}, "rows": {"a matrix"},
    "targets": {"falling numbers", "halves", "a pair", "a far pair", "a matrix"},
    "nonnegative time": POSITIVE | {"0", "oo", "inf"}}
KINDS |= {ANY + kind: labels | {"None"} for kind, labels in KINDS.items()}


@dataclass(frozen=True)
class Call:
    """A public call: right arguments, and kinds of parameters where their names do not say them."""

    name: str
    function: Callable[..., Any]
    right: dict[str, Any]
    kinds: dict[str, str]


NAMED = {  # parameters that mean one thing wherever they stand
    "net": "net", "task": "task", "opt": "opt", "scale": "scale", "depth": "size", "width": "size", "alpha": "real",
    "gamma": "real", "depths": "depths", "progress": "optional function", "executor": "executor",
    "seed": "whole or 0", "samples": "optional whole", "batches": "whole", "dtype": "word", "method": "word",
    "keep_nodes": "nodes", "lr": "rates", "p": "time", "q": "time", "a": "bit", "b": "bit", "t": "step", "n": "whole",
    "ax": "axes", "axes": "axes", "k": "whole", "probes": "flag", "sphere": "flag", "base_depth": "positive",
    "steps": "whole",
    "resume": "optional path", "path": "path", "budget": "optional positive", "loss": "optional function",
    "problem": "problem", "coarsest": "optional whole", "sizes": "mapping", "weight_decay": "nonnegative"}
RIGHT: dict[str, Any] = {
    "net": NET, "task": TASK, "opt": OPT, "scale": SCALE, "depth": 4, "alpha": 1, "gamma": 0, "depths": (2, 4, 8, 16),
    "problem": PROBLEM, "lr": 0.5, "p": 0.5, "q": 0.5, "a": 0, "b": 0, "t": 0, "s": 0, "n": 64, "k": 2, "steps": 3,
    "peak": 0.5}

OPTIONS = {"norm_position": "nothing", "norm_scale": "nothing", "gains": "nothing", "biases": "flag or words",
           "skip": "optional block",
           "visits": "size", "order": "nothing", "inject": "none yet", "zero_readout": "flag"}
OF: dict[str, dict[str, str]] = {  # kinds of single calls, where a name says something else
    "classify": {"alpha": "real or scale", "net": "optional net",
                 "opt": "optional opt", "from_zero": "nothing", "updates": "whole",
                 "batch_size": "optional nonnegative", "steps": "optional nonnegative", "data": "nothing"},
    "HorizonSweep.fit": {"x": "optional nothing", "batches": "optional nothing"},
    "classify_visits": {"branch": "real", "lr": "real", "net": "optional net", "opt": "optional opt"},
    "solve": {"net": "optional net", "opt": "optional opt", "want": "wishes", "fixed": "optional settings",
              "minimize": "optional nothing", "maximize": "optional nothing", "grows": "optional nothing"},
    "interactions": {"net": "optional net"}, "recipe_table": {"optimizer": "word", "s": "exponent"},
    "measure_exponents": {"net": "optional net", "depths": "growing"}, "phase_diagram": {
        "net": "optional net", "scale": "optional nothing", "optimizer": "optional optimizer name",
        "visits": "optional nothing"},
    "measure_diversity": {"alpha": "real or scale", "net": "optional net", "task": "optional task",
                          "opt": "optional opt", "t": "optional step", "depths": "depths or none"},
    "train": {"net": "net or problem", "seed": "optional whole or 0", "batches": "optional whole",
              "dtype": "optional word"},
    "Problem": {"depth": "size"}, "DepthScaling": {"alpha": "exponent", "gamma": "exponent", "branch": "nonzero"},
    "DepthScaling.multiplier": {"depth": "whole"}, "DepthScaling.update_size": {"depth": "whole"},
    "DepthScaling.update_factor": {"depth": "whole"},
    "Parametrization": {"width": "width scaling", "depth": "depth scaling"}, "Parametrization.at_width": {"n": "whole"},
    "Powers": {**dict.fromkeys(("multiplier", "init", "lr"), "settings"),
               **dict.fromkeys(("eps", "decay"), "optional settings")},
    "with_exponents": {"optimizer": "optional opt"}, "powers_by_parameter": {"optimizer": "optional opt"},
    "SGD": {"momentum": "nonnegative", "dampening": "real", "nesterov": "flag", "decoupled": "flag",
            "independent": "flag"},
    "SignSGD": {"lr": "symbolic rates"},
    "Clipped": {"norm": "positive"},
    "Stream": {"covariance": "rows", "teacher": "exponents", "noise": "nonnegative"},
    "long_horizon": {"stream": "nothing", "scale": "depth scaling"},
    "timescale": {"lr": "positive", "wd": "positive", "optimizer": "optional optimizer name"},
    "transfer_rule": {"optimizer": "optimizer name", "x": "optional exponent", "u": "optional exponent"},
    "Lion": {"lr": "symbolic rates", "beta1": "symbolic share", "beta2": "symbolic share", "betas": "shares",
             "weight_decay": "symbolic nonnegative", "independent": "flag"},
    "NormalizedSGD": {"momentum": "nonnegative", "nesterov": "flag", "independent": "flag"},
    "Muon": {"momentum": "nonnegative", "nesterov": "flag", "newton_schulz_steps": "optional whole",
             "independent": "flag"},
    "schedule": {"steps": "whole", "peak": "positive", "warmup": "whole or 0", "fall": "word", "floor": "nonnegative"},
    "Shampoo": {"lr": "symbolic rates", "beta1": "symbolic share", "beta2": "symbolic share", "betas": "shares",
                "eps": "symbolic nonnegative", "weight_decay": "symbolic nonnegative", "independent": "flag"},
    **dict.fromkeys(("Adam", "AdamW", "SOAP"), {
        "lr": "symbolic rates", "beta1": "symbolic share", "beta2": "symbolic share", "betas": "shares",
        "eps": "symbolic nonnegative", "weight_decay": "symbolic nonnegative", "independent": "flag"}),
    "ResNet": {"phi": "activation", "readout": "activation",
               "block": "block", "norm": "optional word", "train_embedding_readout": "flag",
               "matrices": "nothing", "mlp_ratio": "nothing", **OPTIONS},
    "MoE": {"experts": "whole", "active": "optional whole", "gate": "optional word", "shared": "whole or 0",
            "phi": "optional activation", "init": "word", "router": "word", "expert": "block",
            "expert_dim": "optional nothing", "share": "nothing", "balance": "optional nothing"},
    "Skip": {"keep": "nonzero", "inject": "real", "learned": "flag"},
    "HyperConnections": {"reads": "pair of reals", "mixes": "nothing", "writes": "pair of reals"},
    "Task": {"inputs": "inputs", "targets": "inputs", "loss": "loss", "probes": "probes"},
    "Task.losses": {"outputs": "outputs"},
    "Transformer": {"heads": "optional whole", "head_dim": "optional whole", "positions": "whole",
                    "norm": "optional word",
                    "mlp": "optional block", "causal": "flag", "scale_power": "half or one", "qk_norm": "flag",
                    "phi": "activation", "train_embedding_readout": "flag", "attention": "block",
                    "queries_per_key": "whole", "rotation": "optional nothing",
                    "score_table": "optional rows",
                    "mlp_ratio": "whole", "tied": "flag", **OPTIONS, "norm_scale": "nonzero", "gains": "flag"},
    "alibi": {"heads": "whole", "positions": "whole"},
    "Sequences": {"inputs": "nothing", "targets": "nothing", "loss": "loss"},
    "Sequences.losses": {"outputs": "outputs"},
    "program": {"batch": "flag", "d_in": "whole", "d_out": "whole", "probes": "none yet"},
    "kets": {"program": "result"}, "recursion": {"equations": "result"}, "depth_limit": {"recursion": "result"},
    "check_steps": {"derived": "result", "data": "mapping", "loss": "loss", "exact": "flag"},
    "cite": {"what": "result"}, "tangent_kernel": {"run": "result"},
    "audit": {"branch": "whole power", "sizes": "optional settings",
              "lr": "optional any power", "eps": "optional any power",
              "init": "optional any power", "weight_decay": "optional any power", "gradient": "optional any power",
              "optimizer": "optimizer name", "decoupled": "flag", "independent": "flag"},
    "audit_matrices": {"net": "optional net", "scale": "result", "optimizer": "optional optimizer name"},
    "matrix_recipe": {"optimizer": "optional optimizer name", "depth": "optional whole", "scale": "result",
                      "net": "optional net"},
    "recipe": {"name": "word or scale", "optimizer": "optional optimizer name", "depth": "optional whole",
               "visits": "whole", "data": "optional word", "net": "optional net"},
    "NetworkRecipe.factors": {"base": "mapping", "target": "mapping"}, "NetworkRecipe.judged": {"rates": "mapping"},
    "visits_apart": {"program": "result", "visits": "whole"},
    "gradient_correlation": {"variance": "positive"},
    "gradient_flow": {"time": "positive", "points": "whole", "tolerance": "positive", "most_steps": "nothing"},
    "cauchy_differences": {"depths": "growing"}, "convergence": {"depths": "growing"},
    "transfer": {"scalings": "scale", "learning_rates": "rising", "probe_targets": "optional matrix",
                 "widths": "optional depths", "from_limit": "flag"},
    "WidthOrDepth.best": {"budget": "positive"},
    "tasks.digits": {"batch": "whole"}, "tasks.text": {"batch": "whole", "positions": "whole"},
    "methods.LongCollocation": {"tolerance": "positive", "rows": "whole"},
    "methods.Extrapolated": {"tolerance": "positive", "coarsest": "whole"},
    "methods.Attention": {"tolerance": "positive", "scrambles": "whole"},
    "methods.CommonDraws": {"tolerance": "positive", "batches": "nothing", "coarsest": "whole"},
    "methods.Coefficients": {"generated": "flag"},
    **dict.fromkeys(("methods.Conditioned", "methods.Particles"), {"namespace": "array namespace", "device": "device"}),
    "methods.Dense": {"weights": "weights", "namespace": "array namespace", "device": "device"},
    "methods.table": {"methods": "methods"},
    "methods.outputs_alone": {"name": "any word", "outputs": "outputs", "error_estimate": "nonnegative",
                              "probe_outputs": "outputs", "notes": "texts"},
    "Run.gamma": {"s": "step or start"}, "Run.c": {"t": "step or start", "s": "step or start"},
    "Run.cross_covariance": {"s": "step"}, "Run.feature_difference": {"p": "times", "eps": "times"},
    "Run.gradient_difference": {"p": "times", "eps": "times"},
    "Run.at_width": {"seeds": "optional whole", "widths": "optional depths"},
    "Run.losses_at_width": {"seeds": "optional whole"},
    "Run.plot": {"width": "optional whole", "seeds": "optional nothing", "outputs": "flag"},
    "Run.load": {"problem": "optional problem"},
    "Recursion.compile": {"loss": "nothing"},
    "PhaseDiagram.rates": {"phase": "result"},
    "WidthScaling": {"p": "exponents", "q": "exponents", "r": "symbolic real"},
    "WidthScaling.from_abc": {"a": "exponents", "b": "exponents", "c": "symbolic real"},
    "WidthScaling.shifted": {"g": "symbolic real"},
    "WidthScaling.sizes": {"widths": "growing", "base_width": "positive"},
    "width_recipe": {"name": "word", "layers": "layers"}, "meta_principled": {"s": "symbolic real", "layers": "layers"},
    "DepthwiseScaling": {"alpha": "nonnegative", "rate": "optional real", "output_power": "real", "multipliers": "flag",
                         "mu0": "positive", "eta0": "positive", "branch": "nonzero"},
    "DepthwiseScaling.width_scaling": {"layers": "layers"},
    "DepthwiseScaling.sizes": {"width": "whole", "layers": "whole", "d_in": "whole"},
    "depthwise_recipe": {"name": "word", "mu0": "positive", "eta0": "positive"},
    "raw_problem": {"scaling": "result", "layers": "optional whole", "schedule": "optional schedule",
                    "momentum": "share"},
    "dmft": {"raw": "problem", "method": "word", "layer_times": "optional nothing"},
    "order_parameters": {"run": "result", "raw": "optional nothing", "layer_times": "optional nothing"},
    "ntk_exponent": {"order": "whole", "s": "symbolic real", "insert_output": "flag"},
    "web": {"s": "optional real", "kappa": "optional real"},
    "width.depth_to_width_ratio": {**dict.fromkeys(("n", "L", "target"), "optional positive"), "s": "optional real"},
    "Program.unroll": {"sizes": "mapping"},
    "kernel_fn": {"train_embedding_readout": "optional flag", "readout": "optional activation"},
    "AttentionLayer": {"positions": "whole", "head_dim": "whole", "causal": "flag", "power": "real",
                       "mlp": "optional net", "points": "nothing", "scrambles": "whole"},
    "attention_kernel": {"layer": "result", "inputs": "nothing", "scale": "depth scaling"},
    "attention_limit": {"layer": "result", "inputs": "nothing", "targets": "nothing", "scale": "depth scaling",
                        "loss": "loss"},
    "KernelFunction.predict": {"x1": "rows", "x2": "rows", "y1": "targets", "time": "nonnegative time",
                               "get": "word", "ridge": "nonnegative"},
}
WHOLE_TRAINING = {name: RIGHT[name] for name in ("net", "task", "opt", "scale", "depth")}
MORE: dict[str, dict[str, Any]] = {  # right arguments of single calls
    "alibi": {"heads": 2, "positions": 2},
    "WidthScaling": {"p": (0, 0), "q": (0, 1), "r": 0}, "WidthScaling.from_abc": {"a": (0, 0), "b": (0, 0), "c": 0},
    "WidthScaling.shifted": {"g": 0}, "WidthScaling.sizes": {"widths": (4, 8, 1)},
    "width_recipe": {"name": "ntp", "layers": 3}, "meta_principled": {"s": 0.5, "layers": 3},
    "DepthwiseScaling.width_scaling": {"layers": 3}, "DepthwiseScaling.sizes": {"width": 8, "layers": 3},
    "depthwise_recipe": {"name": "muP"}, "raw_problem": {"scaling": tp.theory.DepthwiseScaling()},
    "dmft": {"raw": tp.theory.raw_problem(tp.theory.DepthwiseScaling(), NET, TASK, 4)},
    "ntk_exponent": {"order": 3, "s": 0.5}, "web": {"s": 0.5, "kappa": 0.5},
    "width.depth_to_width_ratio": {"n": 64, "L": 4, "s": 0.5},
    "train": WHOLE_TRAINING, "check_steps": {"data": {"xi": [1.0, 0.5], "y": [1.0, 0.5]}},
    "audit": {"branch": -1, "lr": 0},
    "audit_matrices": {"scale": tp.Parametrization(depth={"W": tp.Powers(lr={"L": -1})})},
    "matrix_recipe": {"scale": tp.Parametrization(depth={"alpha": 1, "W": 0})},
    "transfer": {"scalings": SCALE, "learning_rates": [0.5, 1.0]},
    "gradient_flow": {"time": 1.0, "task": tp.Task([1.0], [1.0])},
    "Task": {"inputs": [1.0, 2.0], "targets": [1.0, 2.0]},
    "Sequences": {"inputs": np.ones((1, 1, 2, 1)), "targets": np.ones((1, 1, 2))},
    "Clipped": {"norm": 1.0}, "Stream": {"covariance": np.eye(2), "teacher": [1.0, 0.0]},
    "long_horizon": {"stream": tp.Stream(np.eye(2), [1.0, 0.0])}, "timescale": {"lr": 0.05, "wd": 0.1},
    "transfer_rule": {"optimizer": "adam"}, "visits_apart": {"visits": 2}, "MoE": {"experts": 8},
    "NetworkRecipe.factors": {"base": {"n": 4}, "target": {"n": 8}},
    "NetworkRecipe.judged": {"rates": {"*": {"n": -1}}},
    "classify": {"gamma": 0}, "DepthScaling": {"alpha": 0, "gamma": 0}, "Run.feature_difference": {"eps": 0.25},
    "Run.gradient_difference": {"eps": 0.25}, "methods.outputs_alone": {
        "name": "mine", "outputs": TASK.targets, "error_estimate": 0.0, "probe_outputs": np.zeros((3, 1, 1))},
    "WidthOrDepth.best": {"budget": 1e4}, "AttentionLayer": {"positions": 2},
    "attention_kernel": {"layer": ATTENTION, "inputs": np.ones((1, 2, 1)), "depth": 1},
    "attention_limit": {"layer": ATTENTION, "inputs": np.ones((1, 1, 2, 1)), "targets": np.ones((1, 1, 2, 1))},
    "KernelFunction.predict": {"x1": np.eye(2), "y1": [1.0, -1.0], "x2": np.ones((1, 2))},
}
INNER = {  # called by the package, on values of its own
    **dict.fromkeys((f"{owner}.{name}" for owner in ("DepthScaling", "Parametrization") for name in (
        "update_exponent", "step_size")), "matrices by name, asked by a builder"),
    **dict.fromkeys((f"Parametrization.{name}" for name in ("over", "is_mup", "require_mup", "beyond_mup",
                                                            "with_exponents")), "asked by the package, of a network"),
    **dict.fromkeys(("Powers.in_one", "Powers.of", "Powers.times"), "asked by the package, by names of its own"),
    **dict.fromkeys((f"MoE.{name}" for name in ("logits", "gates", "require_width")), "asked by branches and problems"),
    "SGD.step": "arithmetic on anything that adds",
    **dict.fromkeys((f"{owner}.{name}" for owner in ("ResNet", "Transformer") for name in (
        "layer", "read", "sublayer", "entered", "require_plain", "require_width", "require_sizes", "require_options",
        "require_directions", "require_hidden", "whole",
        "require_no_vectors", "require_one_visit", "require_first_outputs", "require_added", "require_counted")),
        "asked by builders and problems"),
    "Shampoo.direction": "builds an expression for a builder", "SOAP.direction": "builds an expression for a builder",
    "Adam.direction": "builds an expression for a builder",
    "AdamW.direction": "builds an expression for a builder", "Muon.direction": "builds an expression for a builder",
    "Clipped.applied": "writes statements of a builder", "NormalizedSGD.applied": "writes statements of a builder",
    "Lion.direction": "builds an expression for a builder",
    "SignSGD.direction": "builds an expression for a builder",
    "AttentionLayer.sublayers": "asked by the calls that take a layer",
    "Run.row": "an index by the name it is refused by"}


# of programs and of results
PARTS = {"Assign", "Branch", "CompiledLimit", "CompiledStreams", "Convolution", "Derivation", "Family", "HeadSum",
         "HeadTable", "HeadTurn",
         "KetTerm", "LimitEquation", "LimitOutputs", "LimitTerm", "Loop", "LossDerivative", "MatVec",
         "Matrix", "Mean", "NonlinearOuter", "NormRatio", "Outer", "ParallelBlock", "Scalar", "Step",
         "Transpose", "Vector", "Spectral", "factored_square", "gradients_so_far", "softmax_attention"}


@cache
def public() -> dict[str, Any]:
    """Every public name that is a call or a class, and the classes of what calls return; parts of programs left out."""
    wanted = {tp: set(tp.__all__) - PARTS, tp.theory: set(vars(tp.theory)) - PARTS,
              tp.studies: set(vars(tp.studies)) - {"Suprema"}}
    found = {name: getattr(module, name) for module, names in wanted.items() for name in sorted(names)
             if isinstance(getattr(module, name), (FunctionType, type)) and not name.startswith("_")}
    answers = (Audit, NamedRecipes, PhaseDiagram, PhaseRegion, Recipe, Verdict, tp.width.width_recipe)
    return {**found, **{value.__name__: value for value in answers}}


@cache
def equations() -> Any:
    return tp.kets(tp.program(NET, OPT, SCALE))


@cache
def instances() -> dict[str, Any]:
    """One value of every public class, by name; those of results are made by the calls that return them."""
    recursion = tp.recursion(equations())
    limit, kets_limit = tp.depth_limit(recursion), tp.depth_limit(equations())
    run = tp.train(PROBLEM)
    diagram = tp.phase_diagram()
    raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(), NET, TASK, 4)
    pair = np.ones((1, 2, 1))
    run.save(SAVED)
    return {
        "Adam": tp.Adam(), "AdamW": tp.AdamW(), "Lion": tp.Lion(), "Muon": tp.Muon(), "SGD": OPT,
        "Clipped": tp.Clipped(OPT, 1.0), "NormalizedSGD": tp.NormalizedSGD(),
        "SignSGD": tp.SignSGD(), "Shampoo": tp.Shampoo(), "SOAP": tp.SOAP(),
        "DepthScaling": SCALE, "ResNet": NET, "Task": TASK, "Transformer": tp.Transformer(), "Skip": tp.Skip(),
        "HyperConnections": tp.HyperConnections(), "MoE": tp.MoE(2),
        "Sequences": tp.Sequences(np.ones((1, 1, 2, 1)), np.ones((1, 1, 2))),
        "Problem": PROBLEM, "Audit": tp.audit(-1, 0), "Stream": tp.Stream(np.eye(2), [1.0, 0.0]),
        "MatrixRecipe": tp.theory.matrix_recipe(tp.Parametrization(depth={"alpha": 1, "W": 0})),
        "Citation": tp.theory.cite(run),
        "DepthLimit": limit, "KetLimit": kets_limit, "KetLimitRegion": kets_limit.regions[0],
        "LimitRegion": limit.regions[0], "KetEquations": equations(), "Recursion": recursion,
        "NamedRecipes": tp.named_recipes(), "RoleTable": tp.theory.recipe_table(),
        "PhaseDiagram": diagram, "PhaseRegion": diagram.regions[0], "Program":
        tp.program(NET, OPT, SCALE),
        "Recipe": tp.recipe(), "NetworkRecipe": tp.recipe(net=NET), "Run": run, "Verdict": diagram.regions[0].verdict,
        "Interaction": tp.theory.interactions(1, 0)[0],
        "CauchyDifferences": tp.studies.cauchy_differences(NET, TASK, OPT, SCALE, (2, 4, 8, 16)),
        "Convergence": tp.convergence(NET, TASK, OPT, SCALE, (2, 4)),
        "Diversity": tp.theory.measure_diversity(1, 0, depths=(4, 8, 16, 32)),
        "GradientCorrelation": next(iter(tp.theory.gradient_correlation(NET).values())),
        "AttentionKernel": tp.theory.attention_kernel(ATTENTION, pair, 1), "AttentionLayer": ATTENTION,
        "AttentionLimit": tp.theory.attention_limit(ATTENTION, pair[None], pair[None]),
        "GradientFlow": tp.studies.gradient_flow(NET, tp.Task([1.0], [1.0]), 1.0, SCALE, 4),
        "KernelFunction": tp.kernel_fn(NET),
        "StepCheck": tp.check_steps(equations(), {"T": 2, "L": 2}, {"xi": [1.0, 0.5], "y": [1.0, 0.5]})[0],
        "Transfer": tp.transfer(NET, TASK, OPT, SCALE, (2, 4), [0.5, 1.0]),
        "HorizonSweep": SWEEP, "HorizonFit": SWEEP.fit(),
        "WidthTransfer": tp.transfer(NET, TASK, OPT, SCALE, (2, 4), np.geomspace(0.01, 4, 12), widths=[64]),
        "DepthTransfer": tp.transfer(NET, TASK, OPT, SCALE, (2, 4), np.geomspace(0.01, 4, 12), from_limit=True),
        "WidthOrDepth": tp.studies.width_or_depth(NET, tp.Task([1.0], [1.0]), OPT, SCALE, (2, 4)),
        "DepthwiseScaling": tp.theory.DepthwiseScaling(), "Divergence": tp.Divergence("the outputs are not "
                                                                                      "finite", step=3),
        "NotCovered": tp.NotCovered("no rule"),
        "MissingExtra": tp.MissingExtra("matplotlib", "report", "plots"),
        "RawProblem": raw, "OrderParameters": tp.theory.dmft(raw), "WidthScaling": tp.WidthScaling((0, 0), (0, 1), 0),
        "Parametrization": tp.Parametrization(), "Powers": tp.Powers(lr={"n": -1})}


MADE = {"Adam", "AdamW", "Clipped", "Lion", "Muon", "NormalizedSGD", "SGD", "SignSGD", "Shampoo", "SOAP",
        "DepthScaling", "ResNet", "Sequences", "Task", "Transformer", "Skip", "HyperConnections", "MoE", "Problem",
        "Stream", "DepthwiseScaling", "Parametrization", "Powers", "WidthScaling",
        "AttentionLayer"}  # by users, others by calls


def public_calls() -> Iterator[Call]:
    """Every public function, constructor and method with arguments."""
    for name, value in public().items():
        if isinstance(value, FunctionType) or name in MADE:
            yield call(name, value)
        if isinstance(value, type):
            yield from methods_of(name, value)
    yield call("width.depth_to_width_ratio", tp.width.depth_to_width_ratio)
    for module, members in (("tasks", vars(tp.tasks)), ("methods", vars(tp.methods))):
        for name, value in members.items():
            own = (getattr(value, "__module__", None) or "").startswith(
                "tpcalc.data.tasks" if module == "tasks" else "tpcalc.methods")
            if name.startswith("_") or not own or name in ("Method", "MethodRow", "MethodTable"):
                continue
            if isinstance(value, FunctionType) or isinstance(value, type) and inspect.signature(value).parameters:
                yield call(f"{module}.{name}", value)


def methods_of(owner: str, kind: type) -> Iterator[Call]:
    if owner not in instances():
        raise KeyError(f"{owner}: a public class without a value in tests/support/bad_values.py")
    for name, member in inspect.getmembers(kind):
        ours = (getattr(member, "__module__", None) or "").startswith("tpcalc")
        if not name.startswith("_") and callable(member) and ours and not isinstance(member, type) \
                and f"{owner}.{name}" not in INNER:
            if set(inspect.signature(member).parameters) - {"self"}:
                yield call(f"{owner}.{name}", getattr(instances()[owner], name))


def call(name: str, function: Callable[..., Any]) -> Call:
    right = {**RIGHT, **({"program": tp.program(NET, OPT, SCALE), "equations": equations(), "sizes": {"T": 2, "L": 2}}),
             "recursion": instances()["Recursion"], "derived": equations(), "path": SAVED, "run": instances()["Run"],
             "outputs": TASK.targets, "what": instances()["Run"], "phase": instances()["PhaseRegion"],
             **MORE.get(name, {})}
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    kinds = {**NAMED, **OF.get(name, {})}
    unknown = [p.name for p in parameters if p.name not in kinds]
    if unknown:
        raise KeyError(f"{name}: parameters {unknown} that no table of tests/support/bad_values.py knows")
    needed = {p.name: right[p.name] for p in parameters if p.default is p.empty or p.name in MORE.get(name, {})}
    return Call(name, function, needed, {p.name: kinds[p.name] for p in parameters})


def cases() -> Iterator[tuple[Call, str, str]]:
    """(call, parameter, label of a value that is wrong there)"""
    for one in public_calls():
        for parameter, kind in one.kinds.items():
            yield from ((one, parameter, label) for label in VALUES if label not in KINDS[kind])
