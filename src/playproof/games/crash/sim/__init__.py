"""Simulation of the crash game: the compiled kernel, its environments and the crowd."""
