"""What a kernel or an embedding says."""
