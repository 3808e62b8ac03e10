"""Criteria that look for the maximum by what is known of its place and height."""
