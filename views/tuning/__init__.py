"""A tuning run: its trials, where its rounds went, what it threw away, what the best recipe owes to what."""
