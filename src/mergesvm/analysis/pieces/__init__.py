"""Questions about many pieces of knowledge: influence, leave-one-out, drift."""
