"""Classical facts about Gaussian variables, which the rules of Gaussian expectations use."""
