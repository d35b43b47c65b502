"""Analyses that write recipe entries: each file is one author with one public function."""
