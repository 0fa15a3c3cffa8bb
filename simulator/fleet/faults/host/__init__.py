"""Cases of faults that the kernel of a node reports, and of drivers that hang."""
