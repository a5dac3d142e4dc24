"""What a depth scaling does: definitions of flags, and where in the plane they hold."""
