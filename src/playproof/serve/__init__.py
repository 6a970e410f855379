"""The edge out: policies and models that answer over the network."""
