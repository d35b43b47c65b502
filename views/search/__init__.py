"""Finding operators and groups of a model."""
