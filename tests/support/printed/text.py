"""A reader of printed text: Python's own precedence, after kets and brackets have got names."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping

import numpy as np

from . import values
from .values import Env, Value

INSIDE = r"([^|<>]*)"
MARKS = ((rf"\|{INSIDE}>'", r"COPY(\1)"), (rf"hat\|{INSIDE}>", r"KET('hat', \1)"),
         (rf"dot\|{INSIDE}>", r"KET('dot', \1)"),
         (rf"<{INSIDE}\|{INSIDE}>", r"BRACKET(\1, \2)"), (rf"\|{INSIDE}>", r"KET('', \1)"), (r" \(x\) ", " @ "),
         ("E'", "EPRIME"), ("loss'", "LOSS"), (";", ","), (r", (\d+) steps", r", \1"),
         (r"(C\[[^\]]*,)(\d+)-(\d+)\]", r"\1\2,\3]"), (r"([)\]]) (COPY\()", r"\1*\2"))
RESPONSE = re.compile(rf"\bd\|{INSIDE}>/d(hat\|[^|<>]*>|\|[^|<>]*>|beta\[(?:[^\[\]]|\[[^\]]*\])*\])")
JOIN = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
        ast.Pow: operator.pow}

RELATIONS = {ast.LtE: operator.le, ast.Lt: operator.lt, ast.GtE: operator.ge, ast.Gt: operator.gt, ast.Eq: operator.eq}


class TextReader:
    """Reads the text of expressions; kinds: of the names in it, "scalar", "vector" or "matrix"."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds = kinds

    def read(self, text: str, env: Env) -> Value:
        env = {name.replace("'", "_"): number for name, number in env.items()}
        text = re.sub(r"(?<=\w)'(?=[^\[\w])", "_", text)  # p', an index
        text = text.replace(" <= ", " \u2264 ").replace(" >= ", " \u2265 ").replace(" < ", " \u227a ")
        text = RESPONSE.sub(r"RESPONSE(\1, \2)", text)
        for mark, name in MARKS:
            text = re.sub(mark, name, text)
        text = text.replace("\u2264", "<=").replace("\u2265", ">=").replace("\u227a", "<")
        return self._value(ast.parse(text, mode="eval").body, env)

    def _value(self, node: ast.expr, env: Env) -> Value:
        match node:
            case ast.Constant():
                return node.value
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand, env)
            case ast.BinOp(op=ast.MatMult()):
                left, right = self._value(node.left, env), self._value(node.right, env)
                return left @ right if isinstance(left, values.DenseMatrix) else values.outer(left, right)
            case ast.BinOp():
                left, right = self._value(node.left, env), self._value(node.right, env)
                return JOIN[type(node.op)](float(left) if isinstance(left, int) else left, right)
            case ast.Attribute(attr="T"):
                return self._value(node.value, env).T
            case ast.Name(id="pi"):
                return np.pi
            case ast.Name():
                known = {"n": values.N, **env}
                return known[node.id] if node.id in known else values.some(self.kinds[node.id], node.id)
            case ast.Subscript(value=ast.Name(id="E")):
                return values.mean(self._value(node.slice, env))
            case ast.Subscript(value=ast.Name(id="EPRIME")):
                inside = self._value(node.slice, {**env, " copies": 1.0})
                return np.broadcast_to(inside, (values.N, values.N)).mean(1)
            case ast.Subscript(value=ast.Name(id=name)):
                kind = "vector" if name == "beta" else self.kinds[name]
                return values.some(kind, name, *self._indices(node.slice, env))
            case ast.Call(func=ast.Subscript(value=ast.Name(id="LOSS"))):
                return values.loss(self._value(node.args[0], env), *self._indices(node.func.slice, env))
            case ast.Call(func=ast.Subscript(value=ast.Name(id="Gamma" | "C" as name))):
                locations = [i for a in node.args for i in self._indices(a, env)]
                return values.some("scalar", name, *self._indices(node.func.slice, env), *locations)
            case ast.Call(func=ast.Name(id="Piecewise")):
                return next(self._value(e.elts[0], env) for e in node.args
                            if isinstance(e, ast.Tuple) and self._value(e.elts[1], env))
            case ast.Compare():
                return RELATIONS[type(node.ops[0])](*(self._value(e, env) for e in (node.left, node.comparators[0])))
            case ast.Call(func=ast.Name(id="Sum")):
                return self._sum(node.args, env)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, [self._value(a, env) for a in node.args], " copies" in env)
        raise ValueError(ast.dump(node))

    def _sum(self, given: list[ast.expr], env: Env) -> Value:
        body, *limits = given
        if not limits:
            return self._value(body, env)
        *inner, outermost = limits
        assert isinstance(outermost, ast.Tuple) and isinstance(outermost.elts[0], ast.Name)
        first, last = (int(self._value(e, env)) for e in outermost.elts[1:])
        total: Value = 0.0
        for i in range(first, last + 1):
            total = total + self._sum([body, *inner], {**env, outermost.elts[0].id: i})
        return total

    def _call(self, name: str, given: list[Value], copies: bool) -> Value:
        if name in ("KET", "COPY"):
            ket = values.ket_of("", given[0]) if name == "COPY" else values.ket_of(*given)
            return ket[:, None] if copies and name == "KET" else ket
        if name == "polar":
            return values.polar(given[0], *(given[1:] or [0]))
        plain = {"BRACKET": values.bracket, "RESPONSE": values.response, "mean": values.mean, "outer": values.outer}
        if name in plain:
            return plain[name](*given)
        word, _, size = name.partition("_")
        return values.heads(word, size, given[0]) if size else values.applied(name, *given)

    def _indices(self, node: ast.expr, env: Env) -> list[float]:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return [i for part in parts for i in (
            self._indices(part, env) if isinstance(part, ast.Tuple) else [self._value(part, env)])]
