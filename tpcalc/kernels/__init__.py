"""Compiled loops: arrays in, arrays out; no classes, nothing symbolic."""

from .announce import announce

announce()
