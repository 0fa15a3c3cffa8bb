"""What jobs and their node wait for: pressure of control groups, network file systems, disks."""
