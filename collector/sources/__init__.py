"""One file or folder per backend that is read."""
