"""Remote stores: object storage, uploads, fetched copies, manifests."""
