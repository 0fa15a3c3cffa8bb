"""Measures the detectors: runs of the scenario suite, metrics, and the
baselines they are compared with.
"""
