"""Trajectories of language agents: recorder, HTTP server, proxy, client, windows and outcomes."""
