"""Trainings of Kubernetes: the owner chain of each pod of this node, from the API server."""
