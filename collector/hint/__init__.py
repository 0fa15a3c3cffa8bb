"""A hint to a job that asked for it: this GPU will probably fail, save a checkpoint now."""
