"""Calibration: a noisy cube is brought into line with control totals; the noise left is known."""
