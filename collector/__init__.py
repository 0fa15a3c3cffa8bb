"""Reads hardware, kernel and jobs; and the process that is deployed."""
