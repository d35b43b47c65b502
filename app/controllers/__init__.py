"""Controllers: documents to a panel, its requests to the session."""
