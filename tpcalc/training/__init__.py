"""Training as a program: a network, an optimizer, a task and a scaling, checked together and written out."""
