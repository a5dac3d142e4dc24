"""Models in PyTorch, small and drawn."""
