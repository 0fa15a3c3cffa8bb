"""What became of every GPU-second: used, idle or lost, by cause, team, model and rack."""
