"""Every parser of what tenants write, fed with mutated recordings: seeded, and so reproducible."""
