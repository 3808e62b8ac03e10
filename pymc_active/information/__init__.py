"""Information in one outcome: entropies and divergences in one dimension."""
