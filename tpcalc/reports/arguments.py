"""What the command line is given, as values: exact exponents, depths, schedules, data."""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from functools import partial
from typing import Any, Callable, TypeVar

from .._numbers import from_text

Value = TypeVar("Value")


def argument(allowed: str) -> Callable[[Callable[[str], Value]], Callable[[str], Value]]:
    """A parser of one argument, with one form of message: what was given and what is allowed."""

    def decorate(parse: Callable[[str], Value]) -> Callable[[str], Value]:
        def checked(text: str) -> Value:
            try:
                return parse(text)
            except (ValueError, ZeroDivisionError, OverflowError):
                raise argparse.ArgumentTypeError(f"got {text!r}; expected {allowed}") from None

        return checked

    return decorate


def _whole(text: str, least: int) -> int:
    value = int(text)
    if value < least:
        raise ValueError(text)
    return value


exact_number = argument("an exact number such as 1/2, 0.75 or -1")(from_text)  # decimals mean what they print as
positive = argument("a whole number of at least 1")(partial(_whole, least=1))
nonnegative = argument("a whole number of at least 0")(partial(_whole, least=0))


def _power(text: str) -> Fraction | float:
    """A rational; decimals as floats, of which an audit asks whether they are powers."""
    number = from_text(text)
    return number if set("+-/0123456789") >= set(text.strip()) else float(number)


power_argument = argument("a power of L: an exact number such as 1/2, 0.75 or -1")(_power)


@argument("a whole number of at least 1, or oo")
def size_argument(text: str) -> int | float:
    """A depth or width, which may be infinite."""
    return math.inf if text in ("oo", "inf") else _whole(text, 1)


@argument("two whole numbers of at least 1, of base and target, such as 512,1024")
def pair_argument(text: str) -> tuple[int, int]:
    """What a training has, and what the planned one has."""
    one, other = (_whole(part, 1) for part in text.split(","))
    return one, other


@argument("a number of at least 0 such as 0.3 or 1/3")
def number_argument(text: str) -> Fraction | float:
    """A setting or an exponent."""
    number = _power(text)
    if number < 0:
        raise ValueError(text)
    return number


@argument("two or more growing whole numbers such as 16,32,64, or a doubling range such as 16:1024")
def growing(text: str) -> tuple[int, ...]:
    """Depths or widths: a list with commas, or first:last in powers of two."""
    if ":" in text:
        first, last = (_whole(part, 1) for part in text.split(":"))
        values = [first * 2**k for k in range(max(0, (last // first).bit_length()))]
    else:
        values = [_whole(part, 1) for part in text.split(",")]
    if len(values) < 2 or any(b <= a for a, b in zip(values, values[1:])):
        raise ValueError(text)
    return tuple(values)


@argument("a finite number such as 0.5 or 1/2, or one a step with commas, such as 1,0.5,0.25")
def rates_argument(text: str) -> tuple[float, ...]:
    """Learning rates: one for all steps, or one a step."""
    values = tuple(float(from_text(part)) for part in text.split(","))
    if not all(map(math.isfinite, values)):
        raise ValueError(text)
    return values


@argument("numbers by name such as depth=12,width=768,eps=1e-8,gradient=1e-5, each once")
def named_numbers(text: str) -> dict[str, float]:
    """Numbers by name; whole ones without a point. Which names there are, what they are for says."""
    pairs = [part.split("=") for part in text.split(",")]
    found = {name.strip(): int(value) if value.strip().isdigit() else float(value) for name, value in pairs}
    if len(found) < len(pairs):
        raise ValueError(text)
    return found


NEGATIVE_VALUES = ("--alpha", "--gamma", "--lr", "--branch", "--eps", "--init", "--weight-decay", "--gradient")


def join_negative(arguments: list[str]) -> list[str]:
    """``--gamma -1/2`` as ``--gamma=-1/2``: argparse takes -1/2 for an option of its own."""
    joined: list[str] = []
    for item in arguments:
        if joined and joined[-1] in NEGATIVE_VALUES and item[:1] == "-" and item[1:2].isdigit():
            joined[-1] += "=" + item
        else:
            joined.append(item)
    return joined


class OneLineParser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")


class Defaults(argparse.ArgumentDefaultsHelpFormatter):
    """Help that says a default where there is one to say: not None, and not of an option without a value."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if isinstance(default, tuple):  # as the command line takes it
            return f"{action.help} (default: {','.join(f'{value:g}' for value in default)})"
        silent = default is None or default is False or default == [] or action.nargs == 0
        return action.help if silent else super()._get_help_string(action)


def one_line(message: object) -> str:
    return " ".join(str(message).split())
