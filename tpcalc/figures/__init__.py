"""The papers' figures, drawn anew: their quantity, their family of networks, what they conclude and what the numbers
say of it."""
