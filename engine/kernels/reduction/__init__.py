"""Row and column reductions with the element-wise statements around them."""
