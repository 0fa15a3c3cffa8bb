"""What agents send to a gateway, as bytes and back. No network here."""
