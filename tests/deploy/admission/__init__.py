"""The admission policy of the agent's token: the writes that are tried, and who judges them."""
