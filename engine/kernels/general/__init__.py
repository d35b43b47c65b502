"""The family of last resort: a kernel of every legal schedule tree."""
