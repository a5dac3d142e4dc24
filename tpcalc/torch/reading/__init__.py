"""What a model computes, read from a tape of its tensor operations: streams, branches, roles, and claims on them."""
