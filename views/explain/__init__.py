"""Why a group is as it is."""
