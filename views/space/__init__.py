"""The iteration space: points, order, tiles and dependences."""
