"""Players of the crash game: baselines, the scripted human, control policies and the optimum."""
