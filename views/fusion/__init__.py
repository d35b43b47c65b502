"""What is told and asked about groups."""
