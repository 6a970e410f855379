"""Agents of the arena: scripted archetypes, language agents, and the loop that runs them."""
