"""Data of the program: faces, icons, themes and example models.  The engine takes paths and never looks here."""
