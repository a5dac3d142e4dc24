"""Responses: derivatives of fields in Gaussian sources, and their means."""
