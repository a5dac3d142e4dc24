"""Settings for real networks: published recipes, what to set, and audits of what is set."""
