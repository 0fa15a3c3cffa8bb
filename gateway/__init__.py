"""One live verdict for a cluster: what many agents observed, joined and judged together."""
