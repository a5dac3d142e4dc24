"""The numbered statements of the three papers, and the entries that settle each; () where there is none yet.

A numbered equation is listed where it states a result. Source: the papers themselves, in their order.
"""

from __future__ import annotations

VI, DEPTHWISE = "tensor_programs_vi", "depthwise_transfer"

NUMBERED: dict[str, dict[str, tuple[str, ...]]] = {
    "Tensor Programs VI": {
        "definition 4.1": (f"{VI}/definition_41",),
        **{f"definition 5.{number}": (f"{VI}/definitions_5",) for number in range(1, 6)},
        **{f"claim 5.{number}": (f"{VI}/claim_5{number}",) for number in range(1, 6)},
        "definition 5.6": (f"{VI}/claim_54",),
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
        "definition G.1": (f"{VI}/claim_g1",),
        "claim G.1": (f"{VI}/claim_g1",),
    },
    "Depthwise Hyperparameter Transfer in Residual Networks": {
        "proposition 1": (),
        "proposition 2": (),
        "proposition 3": (),
        **{f"({number})": (f"{DEPTHWISE}/one_step",) for number in (7, 92, 98, 99)},
    },
    "Meta-Principled Family of Hyperparameter Scaling Strategies": {
        **{f"({number})": () for number in ("2.8", "2.10", "2.14", "3.2", "3.7", "3.11", "3.12", "3.13", "3.14", "3.15",
                                            "4.2", "4.3", "4.5", "4.6", "4.8", "4.9", "A1", "A15", "A17", "A19")},
        "footnote 2": (), "footnote 15": (), "footnote 16": (),
    },
}
