"""What may be done next."""
