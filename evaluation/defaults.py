"""What is run where nothing else is asked for."""

MAGNITUDES = "nominal,half,range"
CASES = 200  # of every class, in the plan
