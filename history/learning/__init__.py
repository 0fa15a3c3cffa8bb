"""What a site's own history teaches: models from its labels, and the GPUs worth a look."""
