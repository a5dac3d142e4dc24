"""Texts of a drawn figure, an SVG of matplotlib, that touch each other or are cut off by its edge."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import numpy as np

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
STEP = re.compile(r"(translate|scale|rotate)\(([^)]*)\)")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
SLACK = 0.5  # points by which boxes may touch
Box = tuple[str, np.ndarray]  # a text and its corners, (4, 2)


def matrix(transform: str | None) -> np.ndarray:
    """An SVG transform as a matrix of homogeneous coordinates."""
    whole = np.eye(3)
    for name, text in STEP.findall(transform or ""):
        numbers = [float(n) for n in NUMBER.findall(text)]
        one = np.eye(3)
        if name == "translate":
            one[:2, 2] = [*numbers, 0.0][:2]
        elif name == "scale":
            one[0, 0], one[1, 1] = numbers[0], numbers[-1]
        else:
            assert len(numbers) == 1
            c, s = np.cos(np.radians(numbers[0])), np.sin(np.radians(numbers[0]))
            one[:2, :2] = [[c, -s], [s, c]]
        whole = whole @ one
    return whole


def apply(transform: np.ndarray, points: np.ndarray) -> np.ndarray:
    return points @ transform[:2, :2].T + transform[:2, 2]


def glyphs(root: ET.Element) -> dict[str, np.ndarray]:
    """The control points of every letter that the figure defines."""
    found = {}
    for path in root.iter(f"{SVG}path"):
        points = np.array([float(n) for n in NUMBER.findall(path.get("d") or "")]).reshape(-1, 2)
        if path.get("id") and len(points):
            found["#" + str(path.get("id"))] = apply(matrix(path.get("transform")), points)
    return found


def inked(node: ET.Element, within: np.ndarray, letters: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Points of all that a part of a text draws, in the coordinates that ``within`` leads to."""
    here = within @ matrix(node.get("transform"))
    if node.tag == f"{SVG}use":
        shift = np.eye(3)
        shift[:2, 2] = float(node.get("x", 0)), float(node.get("y", 0))
        return [apply(here @ shift, letters[str(node.get(LINK))])] if node.get(LINK) in letters else []
    return [points for child in node if child.tag in (f"{SVG}g", f"{SVG}use") for points in inked(child, here, letters)]


def boxes(path: Path) -> list[Box]:
    """Every text of a figure, with the corners of its box, in points; turned with it."""
    root = ET.parse(path, ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))).getroot()
    letters, found = glyphs(root), []
    for group in root.iter(f"{SVG}g"):
        if not str(group.get("id", "")).startswith("text_"):
            continue
        words = " ".join(" ".join(str(child.text).split()) for child in group if child.tag is ET.Comment)
        for part in group.findall(f"{SVG}g"):
            points = [p for child in part for p in inked(child, np.eye(3), letters)]
            if points:
                (x0, y0), (x1, y1) = (f(np.concatenate(points), axis=0) for f in (np.min, np.max))
                corners = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
                found.append((words, apply(matrix(part.get("transform")), corners)))
    return found


def frames(path: Path) -> list[np.ndarray]:
    """Lowest and highest corner of every pair of axes, (2, 2)."""
    found = []
    for group in ET.parse(path).getroot().iter(f"{SVG}g"):
        first = group.find(f"{SVG}g/{SVG}path")
        if str(group.get("id", "")).startswith("axes_") and first is not None:
            points = np.array([float(n) for n in NUMBER.findall(first.get("d") or "")]).reshape(-1, 2)
            found.append(np.array([points.min(axis=0), points.max(axis=0)]))
    return found


def crosses(corners: np.ndarray, frame: np.ndarray) -> bool:
    """Is a text partly within axes and partly not?"""
    low, high = frame
    square = np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
    return meet(corners, square) and bool((corners < low - SLACK).any() or (corners > high + SLACK).any())


def meet(a: np.ndarray, b: np.ndarray) -> bool:
    """Do two boxes overlap by more than the slack? Along some side those that do not are apart."""
    for corners in (a, b):
        for side in np.roll(corners, -1, axis=0) - corners:
            normal = np.array([-side[1], side[0]]) / np.hypot(*side)
            first, second = a @ normal, b @ normal
            if first.max() <= second.min() + SLACK or second.max() <= first.min() + SLACK:
                return False
    return True


def faults(path: Path) -> list[str]:
    """What is wrong with a figure's texts, in words: pairs that overlap, texts that are cut off, or cross a frame."""
    width, height = map(float, str(ET.parse(path).getroot().get("viewBox")).split()[2:])
    found, around = boxes(path), frames(path)
    edge = np.array([width, height]) + SLACK
    cut = [f"{words!r} is cut off" for words, corners in found if (corners < -SLACK).any() or (corners > edge).any()]
    cut += [f"{words!r} crosses a frame" for words, corners in found
            if any(crosses(corners, frame) for frame in around)]
    return cut + [f"{one!r} overlaps {other!r}" for (one, a), (other, b) in combinations(found, 2) if meet(a, b)]
