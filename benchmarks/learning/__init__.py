"""What each model of history/learning is worth on worlds that no fit has seen."""
