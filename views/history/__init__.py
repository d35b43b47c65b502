"""The history of a group's advice as chips and branches."""
