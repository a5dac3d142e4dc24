"""The language of Tensor Programs: statements about vectors, matrices and scalars, in loops, and backpropagation."""
