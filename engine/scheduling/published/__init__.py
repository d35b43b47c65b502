"""Scheduling advice in the JSON format of AKG's published files: read, matched against a group, translated, written."""
