"""Meta-Principled Family of Hyperparameter Scaling Strategies (Yaida), called paper C in docstrings."""
