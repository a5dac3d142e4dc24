"""Sizes in n: every vector, number and matrix of a program as a power of the width, before there are kets."""

from .measure import Found as Found, measure as measure
from .perceptron import perceptron as perceptron
from .interpreter import WIDTH as WIDTH
from .verdict import width_verdict as width_verdict
