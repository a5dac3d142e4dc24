"""Compiled loops: arrays in, arrays out; no classes, nothing symbolic."""
