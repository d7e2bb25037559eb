"""The commands, one per module; they import what needs numpy when they run, so that completing options is fast."""
