"""What the agent writes to its own Node object: one condition, and Events about incidents."""
