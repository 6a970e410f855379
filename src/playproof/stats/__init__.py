"""Pure statistics: evidence, selection, calibration, survival and metrics."""
