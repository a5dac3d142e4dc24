"""Networks and their training as anyone would write them, in plain NumPy: nothing of tpcalc but its data."""
