"""What the series of well-known exporters mean: which column of which device."""
