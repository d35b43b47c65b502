"""The fusion plan as a graph."""
