"""The application of Alpcan and Bauckhage: animals found in pictures by brush strokes on others."""
