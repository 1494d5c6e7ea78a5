"""The test kit for authors of plugins: :func:`check_plugin` runs all of it."""
