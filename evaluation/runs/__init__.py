"""Runs the scenario suite: renders scenarios, asks the detectors, judges them, reports.

Offline; nothing here runs in the agent.
"""
