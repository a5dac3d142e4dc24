"""The real ledger: every entry holds, errata are refuted as printed, and keys mean what they say."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.action.densities import derive_densities
from tpcalc.ledger import Ledger, check, entries, entry
from tpcalc.ledger.catalogue import keys
from tpcalc.propagators.laws.pair_laws import DerivedBlock
from tpcalc.propagators.collocation import solve_limit
from tpcalc.reports.pages.latex import compile_pdf, find_tex
from tpcalc.reports.prove import write_ledger

ROOT = Path(__file__).parents[2]
# entries whose measurements take a second or more: what they measure, networks against limits, has tests of its own
LONG = {"meta_principled/hierarchy", "meta_principled/criticality", "meta_principled/family",
        "meta_principled/differentials_in_depth", "meta_principled/differentials_in_width", "tpcalc/finite_width",
        "tpcalc/action_principle", "tensor_programs_vi/appendix_k", "tensor_programs_vi/claim_51",
        "tensor_programs_vi/proposition_c4", "depthwise_transfer/kernel_fluctuations",
        "depthwise_transfer/proposition_2", "depthwise_transfer/continuum"}


def test_all_entries_hold_but_for_long_evidence() -> None:
    """Proofs, witnesses of errata, numbers and quick measurements of every entry."""
    known = entries()
    assert LONG <= set(known) and all(known[key].evidence is not None for key in LONG)
    ledger = check({key: replace(one, evidence=None) if key in LONG else one for key, one in known.items()})
    for holds in (all_entries_hold, every_statement_is_an_object_that_checks_read,
                  what_is_derived_and_misprinted_is_known, the_derivation_of_the_recursion_can_be_read,
                  numbers_agree_to_round_off):
        holds(ledger)


@pytest.mark.nightly
def test_the_ledger_as_a_whole(tmp_path: Path) -> None:
    """One test: to check all entries takes most of a minute, in every process that has a test of them."""
    ledger = check(entries())
    for holds in (all_entries_hold, every_statement_is_an_object_that_checks_read,
                  what_is_derived_and_misprinted_is_known, what_has_evidence_is_known,
                  the_evidence_for_the_action_sees_every_term, the_derivation_of_the_recursion_can_be_read,
                  numbers_agree_to_round_off):
        holds(ledger)
    if find_tex() is not None:
        the_document_compiles_with_every_reference_resolved(ledger, tmp_path)


def all_entries_hold(ledger: Ledger) -> None:
    assert ledger.failures == {}


def every_statement_is_an_object_that_checks_read(ledger: Ledger) -> None:
    assert not [key for key, account in ledger.accounts.items() if account.is_unread]


def what_is_derived_and_misprinted_is_known(ledger: Ledger) -> None:
    found = {key: str(status) for key, status in ledger.statuses.items()}
    slips = {key.split("/")[1]: {slip.value for slip in status.slips} for key, status in ledger.statuses.items()
             if status.slips}
    assert slips == {"claim_52": {"false", "incomplete"}, "claim_54": {"incomplete"}, "ket_equations": {"misprinted"},
                     "lemma_d1": {"misprinted"}, "parameter_update": {"incomplete"}, "proposition_c4": {"incomplete"},
                     "proposition_d2": {"incomplete"}, "theorem_d3": {"false", "incomplete"}, "one_step": {"false"},
                     "nonlinear_limits": {"false"},
                     "proposition_3": {"false", "incomplete", "misprinted"},
                     "several_matrices": {"false"}, "rate_from_second_moments": {"incomplete"},
                     "tangent_kernel": {"incomplete"}, "last_gradient_kernel": {"incomplete"},
                     "embedding_and_readout": {"false"}, "momentum": {"false"}, "weight_decay": {"misprinted"},
                     "finite_size": {"misprinted"},
                     "field_derivatives": {"false"}, "written_forms": {"misprinted"},
                     "path_integral": {"misprinted"},
                     "averages_over_weights": {"misprinted"}, "saddle_point": {"false"},
                     "infinite_depth_action": {"misprinted"},
                     "linear_equations": {"misprinted"}, "continuum": {"misprinted"}, "within_blocks": {"misprinted"},
                     "translation": {"incomplete"}, "feature_learning": {"false"}, "dimensionless": {"false"},
                     "differentials_in_depth": {"incomplete"}, "reused_weights": {"false"},
                     "reused_in_blocks_of_two": {"false"},
                     "inner_matrices": {"incomplete"}}
    derived = {key.split("/")[1] for key, status in found.items() if status.startswith("derived")}
    assert derived >= {"outer_product", "remark_e1", "operators", "parameter_update", "ket_equations", "lemma_d1",
                       "lemma_c3", "proposition_c2", "proposition_c4", "proposition_d2", "appendix_h", "appendix_j",
                       "appendix_k", "recursion_h3", "claim_51", "claim_52", "claim_53", "claim_54", "claim_55",
                       "claim_g1", "claims_relu", "claims_tanh", "claims_two_matrices",
                       "reflection_form", "one_step", "one_step_finite_depth",
                       "block_densities", "overlap_action", "hierarchy"}
    throughout = {key.split("/")[1] for key, status in found.items() if status.startswith("derived throughout")}
    assert throughout == {"outer_product", "remark_e1", "operators", "parameter_update",  # no master theorem in them
                          "stein", "price", "isserlis", "sheppard", "conditioning",
                          "finite_network", "tangent_kernel", "last_gradient_kernel", "embedding_and_readout",
                          "momentum", "weight_decay", "within_blocks", "width_scales", "averages_over_weights",
                          "loops", "batches", "long_training", "output_curve", "stationary_state"}
    compared = {key.split("/")[1] for key, status in found.items() if status.startswith("compared")}
    assert compared == {"translation", "criticality", "learning_rate_equivalence", "family", "differential_form",
                        "feature_learning", "dimensionless", "taylor", "forward_equations", "differentials_in_width",
                        "two_steps_at_finite_width"}
    assert found["tensor_programs_vi/program_1"] == "definition"


def what_has_evidence_is_known(ledger: Ledger) -> None:
    found = {key: str(status) for key, status in ledger.statuses.items()}
    assert found["meta_principled/differentials_in_depth"] == "measured, incomplete as printed"
    assert found["tensor_programs_vi/proposition_d2"] == "derived, incomplete as printed"
    assert found["tensor_programs_vi/master_theorem"] == "measured"
    assert found["tpcalc/action_principle"] == found["tpcalc/finite_width"] == "measured"
    assert found["tpcalc/block_densities"] == "derived"


def the_evidence_for_the_action_sees_every_term(ledger: Ledger) -> None:
    """Without what a gradient makes of itself, B_aa, the limit is another, and the measured outputs tell them apart."""
    class WithoutDiagonal(DerivedBlock):
        def __init__(self, net: tp.ResNet) -> None:
            super().__init__(net)
            self.has_diagonal = False

    evidence = ledger.accounts["tpcalc/action_principle"].evidence
    assert evidence is not None
    measured = evidence.numbers[:3]
    task = tp.Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))
    wrong, right = (solve_limit(task, tp.SGD(1.0), 1.0, 1.0, "plain", block=kind(tp.ResNet("tanh"))).trace.outputs[1:]
                    for kind in (WithoutDiagonal, DerivedBlock))
    np.testing.assert_allclose([m.expected for m in measured], right.ravel(), rtol=0, atol=1e-6)
    assert max(abs(m.value - f) / m.error for m, f in zip(measured, wrong.ravel())) > 10


def the_derivation_of_the_recursion_can_be_read(ledger: Ledger) -> None:
    """With that of the ket equations, fewer than 40 steps, each with a reason and a source."""
    steps = [step for key in ("ket_equations", "lemma_d1")
             for step in ledger.accounts[f"tensor_programs_vi/{key}"].steps]
    assert 20 < len(steps) < 40
    assert all(step.reason and step.source and step.latex() for step in steps)


@pytest.mark.parametrize("paper", ["depthwise_transfer", "gaussian", "meta_principled", "tensor_programs_vi", "tpcalc"])
def test_steps_have_numbers_of_their_own_in_their_order(paper: str) -> None:
    """They say which step fails, and are referred to; proofs of parts have those of the whole. All can be printed."""
    proofs = {key: one.derive() for key, one in entries().items() if key.startswith(paper) and one.derive}
    assert proofs
    for key, proof in proofs.items():
        numbers = [step.number for step in proof.steps]
        assert numbers == sorted(set(numbers)), key
        assert all(map(str, proof.steps)), key


def numbers_agree_to_round_off(ledger: Ledger) -> None:
    assert all(account.difference < 1e-13 for account in ledger.accounts.values() if account.difference is not None)


@pytest.mark.skipif(not (ROOT / "proofs").is_dir(), reason="no checkout")
def test_keys_are_the_files() -> None:
    """Paper and file, whatever folders are between; no two files have the same key."""
    paths = [path.relative_to(ROOT / "proofs") for path in (ROOT / "proofs").glob("*/**/*.py") if path.stem[0] != "_"]
    assert keys() == sorted(f"{path.parts[0]}/{path.stem}" for path in paths) == list(entries())


def test_unknown_keys() -> None:
    with pytest.raises(ValueError, match="near are 'tensor_programs_vi/lemma_"):
        entry("tensor_programs_vi/lemma_d2")


def test_cite_gives_source_and_status() -> None:
    found = tp.theory.cite("tensor_programs_vi/parameter_update")
    assert str(found).splitlines() == [
        "Tensor Programs VI, appendix F, parameter update [tensor_programs_vi/parameter_update]: the update, unrolled",
        "derived throughout, incomplete as printed"]


def test_results_cite_what_they_rest_on() -> None:
    program = tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())
    equations, task = tp.kets(program), tp.Task([1.0], [1.0])
    runs = {method: tp.train(tp.ResNet(), task, tp.SGD(), tp.DepthScaling(), depth, method=method)
            for method, depth in (("coefficients", 2), ("reflection", 2), ("collocation", tp.oo))}
    differences = tp.studies.cauchy_differences(tp.ResNet(), task, tp.SGD(), tp.DepthScaling(), [2, 4, 8, 16])
    assert tp.theory.cite(differences).key == "tensor_programs_vi/theorem_d3"
    assert tp.theory.cite(derive_densities(tp.ResNet("tanh"))).key == "tpcalc/block_densities"
    task, opt, scale = tp.Task([1.0, 0.5], [1.0, -1.0]), tp.SGD(1.0), tp.DepthScaling()
    for net, key in (("linear", "tensor_programs_vi/proposition_d2"), ("erf", "tpcalc/action_principle")):
        assert tp.theory.cite(tp.train(tp.ResNet(net), task, opt, scale, tp.oo)).key == key
    for result, key in ((program, "program_1"), (equations, "ket_equations"), (tp.recursion(equations), "recursion_h3"),
                        (runs["coefficients"], "lemma_d1"), (runs["reflection"], "reflection_form"),
                        (runs["collocation"], "proposition_d2")):
        assert tp.theory.cite(result).key.split("/")[1] == key
    with pytest.raises(ValueError, match="what: got 1.0; expected a key"):
        tp.theory.cite(1.0)


def the_document_compiles_with_every_reference_resolved(ledger: Ledger, tmp_path: Path) -> None:
    write_ledger(ledger, tmp_path)
    assert (tmp_path / "ledger.pdf").read_bytes()[:5] == b"%PDF-"
    (tmp_path / "report.tex").write_text((tmp_path / "ledger.tex").read_text())
    compile_pdf(tmp_path, str(find_tex()))
    log = (tmp_path / "report.log").read_text(encoding="latin-1")
    assert "undefined" not in log and "multiply defined" not in log
    assert all(float(points) < 10 for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log))
