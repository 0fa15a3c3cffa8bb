"""The deployed process: what the agent is made of, started, watched, reloaded and stopped."""
