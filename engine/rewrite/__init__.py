"""Algebraic rewrites of a group's program that a recipe requests; made before dependence analysis, one pass per
file.
"""
