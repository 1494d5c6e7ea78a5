"""The test kit for authors of plugins."""
