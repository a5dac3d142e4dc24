"""What carries rows through a network: layers, layer time, the ends, and the loop over steps of training."""
