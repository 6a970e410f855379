"""Studies of the product itself; they are not part of the wheel."""
