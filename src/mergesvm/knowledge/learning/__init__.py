"""From rows to knowledge, in this process or on an engine."""
