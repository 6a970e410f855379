"""The arena as a learning problem: observations, environments, forks, outcomes and controls."""
