"""Models that learn from a site's own history, and what each is worth on worlds that it has not
seen. Fits need the extra `learning`.
"""
