"""Names of what normal form makes of a program's vectors and matrices.

They say what a thing is and which of the program's names it comes from, so that messages speak of the program. Names of
a program are identifiers, and these are none: they never meet, whatever a program's vectors are called.
"""

from __future__ import annotations


def made_name(what: str, *sources: object) -> str:
    """The name of what is made of vectors or matrices by these names.

    >>> made_name("stream_0", "x", "y"), made_name("move", "a")
    ('stream_0(x, y)', 'move(a)')
    """
    return f"{what}({', '.join(map(str, sources))})"


def source_of(what: str, name: str) -> str | None:
    """The name that one was made from, None for names that were made otherwise, or not at all.

    >>> source_of("move", "move(a)"), source_of("move", "move_of_a")
    ('a', None)
    """
    front, _, source = name.partition("(")
    return source.removesuffix(")") if front == what and source else None


def copied_from(name: str) -> str:
    """The name of the program's matrix that one of several layers in one comes from; other names as they are.

    >>> copied_from("W(2)"), copied_from("W")
    ('W', 'W')
    """
    front, _, number = name.partition("(")
    return front if number.removesuffix(")").isdigit() else name
