"""Second ways to a value, slow and independent of what they check."""
