"""Work that is done in pieces, by processes of this machine or by a Ray cluster: the same pieces,
and the same results.
"""
