"""The action of the order parameters: its saddle, its limit of infinite depth, and fluctuations about it."""
