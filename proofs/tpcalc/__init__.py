"""Statements that are new here."""
