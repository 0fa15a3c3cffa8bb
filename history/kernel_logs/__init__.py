"""Kernel logs that a site has kept, in files or in Loki: XIDs with their time, repeats included."""
