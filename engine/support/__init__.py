"""What every stage may use: errors, plain data and back, files of the user, the compile cache."""
