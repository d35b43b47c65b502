"""Matrix products and convolutions: tiles on tensor cores or CUDA cores, split-K, epilogues."""
