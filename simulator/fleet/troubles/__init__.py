"""Lines of the kernel log about troubles of a node, in every spelling: tables."""
