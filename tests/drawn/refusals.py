"""What a refusal is: ``NotCovered`` or ``Divergence``, with a sentence. Anything else is a defect."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Callable, TypeVar

import tpcalc
from tpcalc._types import Value
from tpcalc.errors import Divergence, NotCovered

HOUSE = Path(tpcalc.__file__).parent
Result = TypeVar("Result")


class Refused(Exception):
    """A refusal: its sentence, without what is special to one program."""

    @property
    def reason(self) -> str:
        """Its last part, which says why, with indices and names taken out, so that refusals can be counted."""
        return re.sub(r"\S*[\[(_^*=@]\S*|'[^']*'", "..", str(self)).strip(" .:;,")[-100:]


def refused_or(ask: Callable[..., Result], *arguments: Value, **options: Value) -> Result:
    """What ``ask`` returns; raises ``Refused`` where it refuses, and ``AssertionError`` for any other error.

    A refusal is ``NotCovered``, or ``Divergence``: of programs that are drawn, none is a bad value.
    """
    try:
        return ask(*arguments, **options)
    except (NotCovered, Divergence) as refusal:
        raise Refused(str(refusal)) from refusal
    except Exception as error:
        raise AssertionError(f"{_where(error)} raised {type(error).__name__}: {error}") from error


def _where(error: BaseException) -> str:
    """The last place in tpcalc."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if HOUSE in Path(f.filename).parents]
    return f"{Path(ours[-1].filename).relative_to(HOUSE.parent)}:{ours[-1].lineno}" if ours else "a call"
