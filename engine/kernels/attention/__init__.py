"""Attention in one kernel: two products with the softmax between them."""
