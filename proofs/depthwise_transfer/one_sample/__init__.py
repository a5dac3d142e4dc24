"""One step on one sample, in closed form."""
