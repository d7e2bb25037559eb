"""The feature maps, one per module."""
