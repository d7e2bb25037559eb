"""Building blocks of feature maps."""
