"""Checks: run an entry's proof, evidence and witnesses, and say what was found."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from .._types import Value
from .._spread import results_in_order
from .entry import Entry, Formula
from .errata import Erratum, Witness
from .evidence import Evidence
from .graph import closure
from .proof import Proof, SentStep, StepLike, unreached
from .status import Standing, Status, standing_of


@dataclass(frozen=True)
class Account:
    """What the checks of one entry found.

    statement: LaTeX; steps: of the proof; difference: the largest relative one on random numbers, None without a
    proof; numbers: what that compares; errata: each with its corrected form in LaTeX and its witness; failures:
    what does not hold, in words; is_unread: the statement is typed, and no check reads it; equations: of the statement.
    """

    entry: Entry
    statement: str
    steps: tuple[StepLike, ...] = ()
    difference: float | None = None
    numbers: str = ""
    evidence: Evidence | None = None
    errata: tuple[tuple[Erratum, str, Witness], ...] = ()
    failures: tuple[str, ...] = ()
    seconds: float = 0.0
    is_unread: bool = False
    equations: int = 0

    @property
    def own_standing(self) -> Standing:
        """By its own checks: derived where every step changes something, compared where what the package computes is
        what is printed, measured by evidence; cited without equations that a check could reach."""
        if not self.equations:
            return Standing.CITED
        if self.steps:
            return Standing.DERIVED if all(step.before != step.after for step in self.steps) else Standing.COMPARED
        return Standing.CITED if self.evidence is None else Standing.MEASURED

    @property
    def checks(self) -> str:
        """What was checked, in a few words."""
        parts = []
        if self.steps:
            parts.append("1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps")
        if self.difference is not None:
            parts.append(f"numbers to {self.difference:.0e}")
        if self.evidence is not None:
            parts.append(f"{len(self.evidence.lines)} measured")
        if self.is_unread:
            parts.append("formula unread")
        if self.errata:
            parts.append(f"{len(self.errata)} " + ("erratum" if len(self.errata) == 1 else "errata"))
        return ", ".join(parts) or "-"


@dataclass
class _Findings:
    """Collects what is found; a part that raises is a failure and does not stop the others."""

    failures: list[str] = field(default_factory=list)

    def attempt(self, what: str, work: Callable[[], Value]) -> Value:
        try:
            return work()
        except Exception as error:
            self.failures.append(f"{what} raised {type(error).__name__}: {error}")
            return None


def check_entry(entry: Entry, seed: int = 0) -> Account:
    """Run all that an entry offers. ``seed`` and the key decide the random numbers, whatever else is checked."""
    start = time.perf_counter()
    found = _Findings()
    statement = found.attempt("the statement", entry.statement)
    body = "" if statement is None else found.attempt("the statement's LaTeX", statement.latex) or ""
    if statement is not None and not body.strip():
        found.failures.append("the statement prints as nothing")
    proof: Proof | None = None
    difference = None
    if entry.derive is not None:
        proof = found.attempt("derive", entry.derive)
        difference = None if proof is None else _prove(entry, statement, proof, seed, found)
    evidence = None if entry.evidence is None else found.attempt("evidence", entry.evidence)
    if evidence is not None:
        found.failures += [f"evidence does not hold: {line}" for line in evidence.failures]
    errata = []
    for erratum in entry.errata:
        witness = found.attempt(f"the witness of the erratum in {erratum.where}", erratum.witness)
        corrected = found.attempt(f"the corrected form of {erratum.where}", erratum.corrected)
        if witness is not None and corrected is not None:
            found.failures += _against(erratum, witness)
            errata.append((erratum, corrected, witness))
    return Account(entry, body, () if proof is None else tuple(proof.steps), difference,
                   "" if proof is None else proof.numbers, evidence, tuple(errata), tuple(found.failures),
                   time.perf_counter() - start, isinstance(statement, Formula),
                   len(getattr(statement, "equations", ())))


def _prove(entry: Entry, statement: Value, proof: Proof, seed: int, found: _Findings) -> float | None:
    if not proof.steps:
        found.failures.append("the derivation has no steps")
    for step in proof.steps:
        if found.attempt(f"step {step.number}", step.check) is not True:
            found.failures.append(f"step {step.number} ({step.rule}) is not what its rule gives")
    found.failures += [f"not derived: {text}" for text in unreached(statement, proof.steps)]
    rng = np.random.default_rng([seed, *entry.key.encode()])
    difference = found.attempt("check_numbers", lambda: float(proof.check_numbers(rng)))
    if difference is not None and not difference <= proof.tolerance:
        found.failures.append(f"numbers differ by {difference:.1e}, more than {proof.tolerance:.0e}: {proof.numbers}")
    return difference


def _against(erratum: Erratum, witness: Witness) -> list[str]:
    failures = []
    if not witness.printed_fails:
        failures.append(f"the printed form of {erratum.where} passes its witness: {witness}")
    if not witness.corrected_holds:
        failures.append(f"the corrected form of {erratum.where} fails its witness: {witness}")
    return failures


@dataclass(frozen=True)
class Ledger:
    """Checked entries: accounts by key, every entry after those it uses.

    read: by key, where they were spoiled, what is read (``equations``, each with ``is_read``): an entry of which no
    equation is has no better standing than cited, whatever its checks find.
    """

    accounts: Mapping[str, Account]
    read: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def statuses(self) -> dict[str, Status]:
        """The status of every entry, from its account and from the standings of what it uses."""
        found: dict[str, Status] = {}
        for key, account in self.accounts.items():
            failed = bool(account.failures)
            uses: list[Standing] = [found[used].standing for used in account.entry.uses]
            equations = self.read[key].equations if key in self.read else ()
            unread = equations and not any(one.is_read for one in equations)
            own = Standing.CITED if unread else account.own_standing
            standing = standing_of(account.entry.kind == "definition", failed, own, uses)
            found[key] = Status(standing, () if failed else tuple(erratum.slip for erratum, *_ in account.errata))
        return found

    @property
    def failures(self) -> dict[str, tuple[str, ...]]:
        return {key: account.failures for key, account in self.accounts.items() if account.failures}


def _check_away(seed: int, entry: Entry) -> Account:
    """An account that can be sent between processes: its errata by their places in the entry, its steps without their
    rules."""
    account = check_entry(entry, seed)
    return replace(account, steps=tuple(map(SentStep.of, account.steps)),
                   errata=tuple((entry.errata.index(one), *found)  # type: ignore[misc]
                                for one, *found in account.errata))


def _brought_home(entry: Entry, account: Account) -> Account:
    """An account about the entry that is here."""
    return replace(account, entry=entry, errata=tuple((entry.errata[location], *found)  # type: ignore
                                                      for location, *found in account.errata))


def check(entries: Mapping[str, Entry], keys: Iterable[str] | None = None, seed: int = 0,
          progress: Callable[[int, int], None] | None = None, executor: Any = None) -> Ledger:
    """Check the entries named and all that they use (default: all).

    executor: what has ``submit``, or a Dask client; entries are independent, and it decides nothing. progress: called
    with (entries done, entries). Raises ``ValueError`` for unknown keys and cycles, before any work.
    """
    ordered = closure(entries, keys)
    work = partial(check_entry, seed=seed) if executor is None else partial(_check_away, seed)
    found = zip(ordered, results_in_order(executor, work, ordered, progress))
    return Ledger({entry.key: account if executor is None else _brought_home(entry, account)
                   for entry, account in found})
