r"""A reader of printed LaTeX, by the rules that a person reads it by.

Factors side by side bind tighter than \cdot and \otimes; a sum over an index, \tfrac{1}{n}\, and a matrix go with all
that follows in their product.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from . import values
from .values import Env, DenseMatrix, Value

Read = Callable[[Env], Value]
SPACE = re.compile(r"\s+|\\,|\\textstyle|\\displaystyle")
FUNCTION = re.compile(r"\\(tanh|cos|exp|max)|\\operatorname\{(\w+)\}|\\theta")
FUNCTIONS = {"max": "Max", "theta": "Heaviside"}
RELATIONS = {r"\leq": operator.le, r"\geq": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
INDEXED = re.compile(r"(.*)\{(\w)_(\w+|\{[\w,]+\})\}")  # names that are {W_1} or {W_{1,2}}
RAISED = re.compile(r"\^\{(?!\\prime)")


class Name(NamedTuple):
    """A family: its kind, its name elsewhere, and whether what stands above it is an index."""

    kind: str
    name: str
    layered: bool


class LatexReader:
    """Reads LaTeX of expressions; names: by their LaTeX."""

    def __init__(self, names: Mapping[str, Name]) -> None:
        self.names = dict(sorted(names.items(), key=lambda pair: -len(pair[0])))

    def read(self, text: str, env: Env) -> Value:
        left = _Text(SPACE.sub(" ", text).strip(), self.names)
        found = left.expression()
        if left.rest:
            raise ValueError(f"{left.rest!r} is left of {text!r}")
        return found(env)


class _Text:
    def __init__(self, rest: str, names: Mapping[str, Name]) -> None:
        self.rest, self.names = rest, names

    def take(self, *tokens: str) -> str | None:
        """The token that the rest begins with, taken off it."""
        self.rest = self.rest.lstrip()
        for token in tokens:
            if self.rest.startswith(token):
                end = self.rest[len(token):]
                if token[-1].isalpha() and token[0] == "\\" and end[:1].isalpha():
                    continue
                self.rest = end
                return token
        return None

    def need(self, token: str) -> None:
        if self.take(token) is None:
            raise ValueError(f"{token!r} expected at {self.rest!r}")

    def group(self) -> Read:
        self.need("{")
        inside = self.expression()
        self.need("}")
        return inside

    def indices(self, *ends: str) -> list[Read]:
        """Numbers with commas, semicolons or nothing in between, some within parentheses."""
        found: list[Read] = []
        while self.take(*ends) is None:
            if self.take(",", ";"):
                continue
            if self.take("("):
                found += self.indices(")")
            elif self.take(r"\top"):
                found.append(lambda env: np.nan)
            else:
                found.append(self.expression(index=True))
        return found

    def expression(self, index: bool = False) -> Read:
        terms = [self.term(self.take("+", "-") == "-", index)]
        while sign := self.take("+", "-"):
            terms.append(self.term(sign == "-", index))
        return lambda env: _folded([t(env) for t in terms], lambda a, b: a + b)

    def term(self, negative: bool, index: bool = False) -> Read:
        """Factors side by side, in groups between which dots and outer products are."""
        groups: list[list[Read]] = [[]]
        signs: list[str] = []
        while True:
            if sign := self.take(r"\cdot", r"\otimes"):
                signs.append(sign)
                groups.append([])
            elif (self.take(r"\tfrac{1}{n}")):
                rest = self.term(False)
                groups[-1].append(lambda env, rest=rest: rest(env) * (1 / values.N))  # type: ignore[misc]
                break
            elif one := self.sum() or self.factor():
                groups[-1].append(one)
                if index and not self.rest.startswith((r" \alpha", r" \gamma")) and groups[-1][0] is not one:
                    break
                if index and re.match(r" ?[a-z0-9]", self.rest) and not re.fullmatch(r"\d+", self.rest):
                    break  # two indices side by side, as in C_{t,s,0 1}
            else:
                break

        def found(env: Env) -> Value:
            parts = [_folded([f(env) for f in group][::-1], _beside) for group in groups]
            whole = parts[0]
            for sign, part in zip(signs, parts[1:]):
                whole = float(np.sum(whole * part)) if sign == r"\cdot" else (
                    whole * part if " copies" in env else values.outer(whole, part))
            return -whole if negative else whole

        if not groups[-1]:
            raise ValueError(f"nothing at {self.rest!r}")
        return found

    def sum(self) -> Read | None:
        if not self.take(r"\sum"):
            return None
        if self.take("_i"):  # over coordinates, of ( )_i
            inside = self.factor(raised=False)
            assert inside is not None
            self.need("_i")
            return lambda env: float(np.sum(np.broadcast_to(inside(env), values.N)))
        if self.take(r"_{\mathrm{head} (", r"_{\mathrm{head}("):
            size = re.match(r"[\dx]+", self.rest)
            assert size is not None
            self.need(size[0] + ")}")
            inside = self.term(False)
            return lambda env: values.heads("headsum", size[0], inside(env))
        limits: list[tuple[str, Read, Read]] = []
        if self.take(r"_{\substack{"):
            while not self.take("}}"):
                first = self.expression()
                self.need(r"\leq")
                index = self.index_name()
                self.need(r"\leq")
                limits.append((index, first, self.expression()))
                self.take(r"\\")
        else:
            self.need("_{")
            index = self.index_name()
            self.need("=")
            first = self.expression()
            self.need("}")
            self.need("^")
            limits.append((index, first, self.group()))
        body = self.term(self.take("-") == "-")
        return lambda env: _summed(body, limits, env)

    def index_name(self) -> str:
        self.rest = self.rest.lstrip()
        found = re.match(r"\\?[a-zA-Z]+'?|[a-z]", self.rest)
        assert found is not None, self.rest
        self.rest = self.rest[found.end():]
        return found[0]

    def factor(self, raised: bool = True) -> Read | None:
        base = self.base()
        if base is None or not raised:
            return base
        if self.take(r"^{\top}"):
            return lambda env: base(env).T
        if not RAISED.match(self.rest.lstrip()):
            return base
        self.need("^")
        power = self.group()
        return lambda env: base(env) ** power(env)

    def base(self) -> Read | None:
        self.rest = self.rest.lstrip()
        if number := re.match(r"\d+(\.\d+)?", self.rest):
            self.rest = self.rest[number.end():]
            return lambda env: float(number[0])
        if self.take(r"\frac{\partial"):
            vector = self.ket()
            self.need("}{")
            self.need(r"\partial")
            base = self.factor()
            self.need("}")
            assert base is not None and vector is not None
            return lambda env: values.response(vector(env)[1], base(env))
        if self.take(r"\frac", r"\tfrac"):
            above, below = self.group(), self.group()
            return lambda env: above(env) * (1.0 / below(env))
        if self.take(r"\sqrt"):
            root = self.bracketed("[", "]") if self.rest.startswith("[") else lambda env: 2.0
            inside = self.group()
            return lambda env: inside(env) ** (1.0 / root(env))
        if self.take(r"\left|"):
            return self.called("Abs", self.bracketed("{", r"}\right|"))
        if self.take(r"\mathbb{E}'"):
            body = self.bracketed(r"\left[", r"\right]")
            return lambda env: np.broadcast_to(body({**env, " copies": 1.0}), (values.N, values.N)).mean(1)
        if self.take(r"\mathbb{E}"):
            body = self.bracketed(r"\left[", r"\right]")
            return lambda env: values.mean(body(env))
        if self.take(r"\left("):
            return self.bracketed("", r"\right)")
        if self.rest.startswith("{"):
            return self.name() or self.bracketed("{", "}")  # some families are {W_1}
        if self.take(r"\begin{cases}"):
            return self.cases()
        if self.take(r"\langle"):
            return self.bracket()
        if word := re.match(r"\\mathrm\{(shared|gathered|first)\}_\{([^}]*)\}", self.rest):
            self.rest = self.rest[word.end():]
            inside, size = self.bracketed(r"\left(", r"\right)"), word[2].replace(r"\times ", "x")
            return lambda env: values.heads(word[1], size, inside(env))
        if word := re.match(r"\\operatorname\{polar\}(_\{(\d+)\})?", self.rest):
            self.rest = self.rest[word.end():]
            inside = self.bracketed(r"\left(", r"\right)")
            return lambda env: values.polar(inside(env), int(word[2] or 0))
        for head, name in ((r"\Gamma", "Gamma"), ("C_", "C")):
            if re.match(re.escape(head) + "_?{", self.rest):
                return self.coefficient(name)
        if self.take(r"\ell"):
            self.need("_{")
            indices = self.indices("}")
            self.need("'(")
            inside = self.bracketed("", ")")
            return lambda env: values.loss(inside(env), *(i(env) for i in indices))
        if found := FUNCTION.match(self.rest):
            return self.function(found)
        if self.rest.startswith("|"):
            ket = self.ket()
            return None if ket is None else lambda env: ket(env)[0]
        return self.name()

    def cases(self) -> Read:
        parts: list[tuple[Read, Read]] = []
        while not self.take(r"\end{cases}"):
            part = self.expression()
            self.need("&")
            if self.take(r"\text{otherwise}"):
                parts.append((part, lambda env: True))
            else:
                self.need(r"\text{for}\:")
                left, relation = self.expression(), self.take(*RELATIONS)
                assert relation is not None, self.rest
                right = self.expression()
                parts.append((part, _related(RELATIONS[relation], left, right)))
            self.take(r"\\")
        return lambda env: next(part(env) for part, holds in parts if holds(env))

    def bracketed(self, first: str, last: str) -> Read:
        if first:
            self.need(first)
        inside = self.expression()
        self.need(last)
        return inside

    def called(self, name: str, *inside: Read) -> Read:
        return lambda env: values.applied(name, *(i(env) for i in inside))

    def function(self, found: re.Match[str]) -> Read:
        self.rest = self.rest[found.end():]
        name = found[1] or found[2] or "theta"
        power = self.group() if self.take("^") else None
        outside = self.take("{") is not None
        self.need(r"\left(")
        inside = [self.expression()]
        while self.take(","):
            inside.append(self.expression())
        self.need(r"\right)")
        if outside:
            self.need("}")
        plain = self.called(FUNCTIONS.get(name, name), *inside)
        return plain if power is None else lambda env: plain(env) ** power(env)

    def ket(self) -> Callable[[Env], tuple[Value, Value]] | None:
        before = self.rest
        self.need("|")
        try:
            inside = self.expression()
        except ValueError:
            self.rest = before  # the bar within <u|v>
            return None
        end = self.take(r"\rangle", r"\hat{\rangle}", r"\dot{\rangle}")
        if end is None:
            self.rest = before
            return None
        copy = self.take(r"^{\prime}") is not None
        mark = {r"\rangle": "", r"\hat{\rangle}": "hat", r"\dot{\rangle}": "dot"}[end]

        def found(env: Env) -> tuple[Value, Value]:
            vector = inside({k: v for k, v in env.items() if k != " copies"})
            value = values.ket_of(mark, vector)
            return (value[:, None] if " copies" in env and not copy else value), vector
        return found

    def bracket(self) -> Read:
        """<u|v>: the first bar that leaves two expressions is the one in between."""
        whole = self.rest
        for bar in re.finditer(r"\|", whole):
            left = _Text(whole[:bar.start()], self.names)
            self.rest = whole[bar.end():]
            try:
                u, v = left.expression(), self.expression()
                self.need(r"\rangle")
            except ValueError:
                continue
            if not left.rest.strip():
                return lambda env: values.bracket(u(env), v(env))
        raise ValueError(f"no bracket at {whole!r}")

    def coefficient(self, name: str) -> Read:
        r"""\Gamma or C with its indices, and layers that are numbers, or \tfrac{l}{L}."""
        self.take(r"\Gamma", "C")
        self.need("_{")
        below = self.indices("}")
        locations: list[Read] = []
        if self.take(r"\left("):
            while not self.take(r"\right)"):
                if self.take(r"\tfrac{"):
                    locations.append(self.expression())
                    self.need("}{L}")
                elif not self.take(","):
                    ratio = self.expression()
                    locations.append(lambda env, ratio=ratio: ratio(env) * env["L"])  # type: ignore[misc]
        return lambda env: values.some("scalar", name, *(i(env) for i in below + locations))

    def name(self) -> Read | None:
        if self.take(r"\beta_{"):
            found = self.indices("}") + (self.indices("}") if self.take("^{") else [])
            return lambda env: values.some("vector", "beta", *(i(env) for i in found))
        for text, family in self.names.items():
            if indexed := INDEXED.fullmatch(text):  # whose own index is the first of all
                opened = indexed[1] + indexed[2] + "_{" + indexed[3].strip("{}")
                if self.rest.startswith((opened + ",", opened + "}")):
                    self.rest = self.rest[len(opened):]
                    return self.member(family, self.indices("}"))
            elif self.take(text):
                return self.member(family)
        if self.take(r"\pi"):
            return lambda env: float(np.pi)
        if re.match(r"e\^", self.rest):
            self.need("e")
            return lambda env: float(np.e)
        if symbol := re.match(r"\\(alpha|gamma|eta|epsilon)|[a-zA-Z]'?", self.rest):
            self.rest = self.rest[symbol.end():]
            return lambda env: env[symbol[0].removeprefix("\\")]
        return None

    def member(self, family: Name, indices: list[Read] | None = None) -> Read:
        if indices is None:
            indices = self.indices("}") if self.take("_{") else []
        if family.layered and self.take("^{"):
            indices += self.indices("}")
        turned = family.kind == "matrix" and self.take(r"^{\top}") is not None

        def found(env: Env) -> Value:
            numbers = [i(env) for i in indices]
            above = [i for i in numbers if i == i]
            value = values.some(family.kind, family.name, *above)
            return value.T if turned or len(above) < len(numbers) else value
        return found


def _related(relation: Callable[[Value, Value], bool], left: Read, right: Read) -> Read:
    return lambda env: relation(left(env), right(env))


def _folded(parts: list[Value], join: Callable[[Value, Value], Value]) -> Value:
    whole, *rest = parts
    for part in rest:
        whole = join(whole, part)
    return whole


def _beside(right: Value, left: Value) -> Value:
    if isinstance(left, DenseMatrix) and not isinstance(right, DenseMatrix) and np.ndim(right):
        return left @ right  # matrices beside each other are functions of entries
    return left * right


def _summed(body: Read, limits: list[tuple[str, Read, Read]], env: Env) -> Value:
    if not limits:
        return body(env)
    *inner, (index, first, last) = limits
    total: Value = 0.0
    for i in range(int(first(env)), int(last(env)) + 1):
        total = total + _summed(body, inner, {**env, index: i})
    return total
