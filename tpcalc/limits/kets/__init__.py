"""Limits of infinite depth of kets: from the equations of one layer to those of streams in layer time."""
