"""Analysis of recorded rounds: audit, replay and the rug predictor."""
