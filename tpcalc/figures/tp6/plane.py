"""Tensor Programs VI, Figure 1: what scalings (alpha, gamma) do."""

from __future__ import annotations

from ... import phase_diagram
from ..figure import Conclusion, Drawing, Sizes, computed
from ..panels import picture_of_panels

WANTED = {"stable_in_training": True, "nontrivial": True, "faithful_in_training": True, "feature_learning": True,
          "redundant": False}


@computed("tp6/1", "what scalings do in the plane of alpha and gamma", "derived from the recursion of linear networks",
          "verdicts")
def _(sizes: Sizes) -> Drawing:
    plane = phase_diagram()
    picture, axes = picture_of_panels(1)
    picture.set_size_inches(7.2, 5.4)  # the regions have their names written into them
    plane.plot(axes[0])
    wanted = [region for region in plane.regions if WANTED.items() <= region.flags.items()]
    names = ", ".join(f"{region.row['name']} where {region.row['where']}" for region in wanted)
    return Drawing(picture, {"regions": [region.row for region in plane.regions]}, (
        Conclusion("one scaling alone is stable and faithful, learns features and is not redundant", names,
                   len(wanted) == 1 and wanted[0].dimension == 0),))
