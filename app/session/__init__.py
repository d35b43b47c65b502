"""What is open: workspace, document, history, undo, files, the client of the worker process."""
