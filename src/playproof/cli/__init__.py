"""The command line: one lazy group, one way to print, the doctor."""
