"""The recursion of Gamma and C: at finite depth, its limit, and how fast it is reached."""
