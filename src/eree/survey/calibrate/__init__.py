"""Calibration: a noisy cube is brought into line with control totals, and the noise left told."""
