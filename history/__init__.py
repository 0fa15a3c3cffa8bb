"""What a site has recorded already: the series of its Prometheus become a store of ours."""
