"""What tenants wrote is opened, read and decoded in a child of bounded memory and time: the agent
itself sees typed and bounded values only.
"""
