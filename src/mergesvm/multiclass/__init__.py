"""From many classes to binary problems and back."""
