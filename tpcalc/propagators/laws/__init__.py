"""Laws of rows: kernels of blocks and of attention, their derivatives, and where they start."""
