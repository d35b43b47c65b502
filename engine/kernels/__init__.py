"""From a schedule to a tile program, one package for each kind of kernel."""
