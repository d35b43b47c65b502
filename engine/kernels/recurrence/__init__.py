"""Steps of a recurrence in one launch, whose blocks all meet between them."""
