"""Algebraic changes of a group's program that a recipe asks for: made before dependences, one pass a file."""
