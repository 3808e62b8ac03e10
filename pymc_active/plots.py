"""Pictures of results (needs matplotlib, the extra ``plots``)."""
