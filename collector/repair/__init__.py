"""Repair as a state machine: from a drained node to one that takes jobs again, or to a ticket."""
