"""Statements of 2024 to 2026 that practice quotes and that disagree, each with its source and what decides it."""
