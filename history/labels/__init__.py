"""Operators' verdicts on incidents: given, taken from tickets, and what they prove."""
