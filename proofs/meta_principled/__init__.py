"""Meta-Principled Family of Hyperparameter Scaling Strategies (Yaida)."""
