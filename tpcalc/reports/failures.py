"""What can be wrong with a report that was written."""

from __future__ import annotations


class ReportError(RuntimeError):
    """A part of a report is missing; the rest is there. status: of the command line."""

    status = 1


class CompileError(ReportError):
    """TeX was there and did not like report.tex; the message has its first error."""


class NoResult(ReportError):
    """A stage has no result, because its solution diverges or does not fit into memory."""

    status = 2
