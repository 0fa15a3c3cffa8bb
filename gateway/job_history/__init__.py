"""Jobs of the last month from the store of the agents: which runs there are and whose, and the page
of one. Read in child processes, so that no question holds the judge or the API.
"""
