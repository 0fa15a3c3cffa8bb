"""The page of a job's life, from the store: `tocsin explain job`."""
