"""The records file: trials of kernels with their times, and the runs of searches that tried them."""
