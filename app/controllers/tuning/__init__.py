"""A tuning run in the window: started as a process of its own or found in a file of records, followed, applied."""
