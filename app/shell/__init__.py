"""The window: frame, menus, actions, palette, layout, settings."""
