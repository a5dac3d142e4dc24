"""BibTeX of the papers whose statements something rests on, and of no others."""

from __future__ import annotations

import re
from typing import Iterable

CITED = re.compile(r"\[([a-z_]+/[a-z0-9_]+)\]")  # keys of the ledger in docstrings and sources of steps
PAPERS = {
    "contested": """@misc{contested,
  title = {Statements of 2024 to 2026 that disagree},
  note = {of many papers; the source of each entry, as tpcalc prove prints it, names its own},
}
""",
    "depthwise_transfer": """@article{depthwise_transfer,
  title = {Depthwise Hyperparameter Transfer in Residual Networks: Dynamics and Scaling Limit},
  author = {Bordelon, Blake and Noci, Lorenzo and Li, Mufan Bill and Hanin, Boris and Pehlevan, Cengiz},
  journal = {arXiv preprint arXiv:2309.16620},
  year = {2023},
  url = {https://arxiv.org/abs/2309.16620},
}
""",
    "meta_principled": """@article{meta_principled,
  title = {Meta-Principled Family of Hyperparameter Scaling Strategies},
  author = {Yaida, Sho},
  journal = {arXiv preprint arXiv:2210.04909},
  year = {2022},
  url = {https://arxiv.org/abs/2210.04909},
}
""",
    "tensor_programs_vi": """@article{tensor_programs_vi,
  title = {Tensor Programs {VI}: Feature Learning in Infinite-Depth Neural Networks},
  author = {Yang, Greg and Yu, Dingli and Zhu, Chen and Hayou, Soufiane},
  journal = {arXiv preprint arXiv:2310.02244},
  year = {2023},
  url = {https://arxiv.org/abs/2310.02244},
}
""",
    "tpcalc": """@software{tpcalc,
  title = {tpcalc: a calculus for wide and deep networks},
  note = {statements that are new there; checked by tpcalc prove},
}
"""}
CLASSICAL = frozenset({"gaussian"})  # facts of every textbook, with no paper to name


def papers(keys: Iterable[str]) -> list[str]:
    """The papers of statements by their keys; raises ``ValueError`` for a folder of the ledger without an entry."""
    folders = {key.split("/")[0] for key in keys}
    unknown = folders - set(PAPERS) - CLASSICAL
    if unknown:
        raise ValueError(f"keys: got {', '.join(sorted(unknown))}; expected those of {', '.join(PAPERS)} and "
                         f"{', '.join(CLASSICAL)}")
    return sorted(folders & set(PAPERS))


def bibtex(keys: Iterable[str]) -> str:
    """BibTeX of exactly the papers that hold these statements.

    >>> bibtex(["tensor_programs_vi/lemma_d1", "gaussian/price"]).splitlines()[0]
    '@article{tensor_programs_vi,'
    """
    return "\n".join(PAPERS[paper] for paper in papers(keys))
