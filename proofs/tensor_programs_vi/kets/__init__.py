"""What vectors and matrices become at infinite width."""
