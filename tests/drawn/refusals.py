"""What a refusal is: an error that tpcalc raises on purpose, in a sentence. Anything else is a defect."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Callable, TypeVar

import tpcalc
from tpcalc._types import Value
from tpcalc.errors import Divergence

HOUSE = Path(tpcalc.__file__).parent
Result = TypeVar("Result")


class Refused(Exception):
    """A refusal: its sentence, without what is special to one program."""

    @property
    def reason(self) -> str:
        """Its last part, which says why, with indices and names taken out, so that refusals can be counted."""
        return re.sub(r"\S*[\[(_^*=@]\S*|'[^']*'", "..", str(self)).strip(" .:;,")[-100:]


def refused_or(ask: Callable[..., Result], *arguments: Value, **options: Value) -> Result:
    """What ``ask`` returns; raises ``Refused`` where it refuses, and ``AssertionError`` for an error that says nothing.

    A refusal is a ``ValueError``, a kind of it, or ``Divergence``, that a ``raise`` of tpcalc itself brought about.
    """
    try:
        return ask(*arguments, **options)
    except (ValueError, Divergence) as error:
        if not _on_purpose(error):
            raise AssertionError(f"{_where(error)} raised {type(error).__name__}: {error}") from error
        raise Refused(str(error)) from error
    except Exception as error:
        if type(error).__module__.startswith("tpcalc") and _on_purpose(error):
            raise Refused(str(error)) from error
        raise AssertionError(f"{_where(error)} raised {type(error).__name__}: {error}") from error


def _on_purpose(error: BaseException) -> bool:
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = HOUSE in Path(last.filename).parents
    return is_ours and (last.line or "").startswith("raise") and " " in str(error)


def _where(error: BaseException) -> str:
    """The last place in tpcalc."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if HOUSE in Path(f.filename).parents]
    return f"{Path(ours[-1].filename).relative_to(HOUSE.parent)}:{ours[-1].lineno}" if ours else "a call"
