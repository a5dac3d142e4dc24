"""The numbered statements of the three papers, and the entries or tests that settle each; () where there is none.

A numbered equation is listed where it states a result; a test is given by its file and name. Source: the papers
themselves, in their order.
"""

from __future__ import annotations

VI, DEPTHWISE, FAMILY = "tensor_programs_vi", "depthwise_transfer", "meta_principled"

# numbered equations of Depthwise Hyperparameter Transfer by the entry that settles each; all are counted
SETTLED: dict[str, tuple[int, ...]] = {
    "parametrization": (1, 2, 3, 8, 133, 138, 141),
    "proposition_2": (6, *range(83, 88)),
    "one_step": (7, 92, 94, 98, 99),
    "fields_and_kernels": (4, 15, 22, 25),
    "finite_network": (13, 17, 18, 19),
    "tangent_kernel": (11, 12, 14, 128),
    "last_gradient_kernel": (16,),
    "embedding_and_readout": (129, 130),
    "momentum": tuple(range(134, 138)),
    "weight_decay": (139, 140),
    "path_integral": (20, 21, 23, 26, *range(27, 33), 74),
    "averages_over_weights": (24, 34, 35),
    "saddle_point": (33,),
    "infinite_depth_action": tuple(range(75, 82)),
    "linear_equations": (89, 93, 95, 96),
    "continuum": (53, 54, 55, 57, 63, 132),
    "response_sizes": (42, 43, *range(45, 49)),
    "responses": (36, 38, 39, 49),
    "field_derivatives": (50, 67),
    "proposition_3": (5, 37, 52, *range(58, 63), 64, 65, 66, *range(68, 74), 88, 90, 91, 131),
    "written_forms": (40, 41, 44, 51, 56, 82, 97),
    "width_scales": (9, 10),
    "convolutions": (118, 119),
    "several_matrices": (125, 126, 127),
    "blocks_of_several_matrices": (120, 122),
    "within_blocks": (121, 123, 124),
    "kernel_fluctuations": (100, 102, 104, 105, 106, 108, 111),
    "finite_size": (103, 107, 109, 110, 117),
}

ONE_NEURON, FIRST_UPDATE = "tests/agreement/test_one_neuron.py", "tests/agreement/test_first_update.py"
SIZES = "tests/studies/test_finite_size.py::test_the_decomposition_112_to_116"
ELSEWHERE: dict[int, tuple[str, ...]] = {
    101: ("tpcalc/finite_width",), **{number: ("tpcalc/finite_width", SIZES) for number in (113, 114)},
    **{number: (SIZES,) for number in (112, 115, 116)}}

NUMBERED: dict[str, dict[str, tuple[str, ...]]] = {
    "Tensor Programs VI": {
        "definition 4.1": (f"{VI}/definition_41",),
        **{f"definition 5.{number}": (f"{VI}/definitions_5",) for number in range(1, 7)},
        **{f"claim 5.{number}": (f"{VI}/claim_5{number}",) for number in range(1, 6)},
        "program 1": (f"{VI}/program_1",),
        "definition C.1": (f"{VI}/definition_c1",),
        "proposition C.2": (f"{VI}/proposition_c2",),
        "lemma C.3": (f"{VI}/lemma_c3",),
        "proposition C.4": (f"{VI}/proposition_c4",),
        "lemma D.1": (f"{VI}/lemma_d1",),
        "proposition D.2": (f"{VI}/proposition_d2",),
        "theorem D.3": (f"{VI}/theorem_d3",),
        "remark E.1": (f"{VI}/remark_e1",),
        "remark E.2": (f"{VI}/nonlinear_outer_product",),
        "definition F.1": (f"{VI}/operators",),
        "definition G.1": (f"{VI}/definitions_5",),
        "claim G.1": (f"{VI}/claim_g1",),
        **{f"({number})": () for number in range(1, 10)},
        "(1)": (f"{VI}/program_1",), "(5)": (f"{VI}/definition_c1",), "(6)": (f"{VI}/definition_c1",),
        "(2)": (f"{ONE_NEURON}::test_equation_2",),
        "(3)": (f"{ONE_NEURON}::test_equation_3_is_a_step_of_the_library",),
        "(4)": (f"{FIRST_UPDATE}::test_equation_4_in_a_batch",), "(8)": (f"{FIRST_UPDATE}::test_equation_8",),
        "(7)": (f"{VI}/parameter_update",), "(9)": (f"{VI}/appendix_k",),
    },
    "Depthwise Hyperparameter Transfer in Residual Networks": {
        "proposition 1": (f"{DEPTHWISE}/proposition_3",),
        "proposition 2": (f"{DEPTHWISE}/proposition_2",),
        "proposition 3": (f"{DEPTHWISE}/proposition_3",),
        "table 1": (f"{DEPTHWISE}/parametrization",),
        **{f"({number})": () for number in range(1, 142)},
        **{f"({number})": (f"{DEPTHWISE}/{slug}",) for slug, numbers in SETTLED.items() for number in numbers},
        **{f"({number})": settled for number, settled in ELSEWHERE.items()},
    },
    "Meta-Principled Family of Hyperparameter Scaling Strategies": {
        **{f"({number})": tuple(f"{FAMILY}/differentials_in_{size}" for size in ("width", "depth"))
           for number in ("1.1", "4.10")},
        **{f"({number})": (f"{FAMILY}/translation",) for number in ("2.4", "2.6", "2.7", "2.8")},
        **{f"({number})": (f"{FAMILY}/taylor",) for number in ("2.10", "2.14")},
        **{f"({number})": (f"{FAMILY}/criticality",) for number in ("3.1", "3.2", "3.3")},
        "(3.7)": (f"{FAMILY}/forward_equations", f"{FAMILY}/learning_rate_equivalence"),
        **{f"(3.{number})": (f"{FAMILY}/learning_rate_equivalence",) for number in range(8, 12)},
        **{f"(3.{number})": (f"{FAMILY}/family",) for number in range(12, 21)},
        **{f"(4.{number})": (f"{FAMILY}/forward_equations",) for number in (2, 5, 8)},
        **{f"(4.{number})": tuple(f"{FAMILY}/differentials_in_{size}" for size in ("width", "depth"))
           for number in (3, 6, 9)},
        **{f"(A{number})": (f"{FAMILY}/generated_differentials",) for number in range(1, 4)},
        **{f"(A{number})": (f"{FAMILY}/type_one_differentials",) for number in range(4, 14)},
        **{f"(A{number})": (f"{FAMILY}/hierarchy",) for number in range(14, 18)},
        **{f"(A{number})": (f"{FAMILY}/differential_form",) for number in (18, 19)},
        "footnote 2": (f"{FAMILY}/translation",),
        "footnote 15": (f"{FAMILY}/feature_learning",),
        "footnote 16": (f"{FAMILY}/dimensionless",),
    },
}
