"""What operators' verdicts on incidents prove of a detector, and what follows for its pages."""
