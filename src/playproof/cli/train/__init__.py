"""The train commands, one module a method."""
