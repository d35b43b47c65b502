"""Plots that can be touched: zoomed, panned, read off, saved; pyqtgraph is loaded when the first one is shown."""
