"""What the default search is compared with: the paper's tests and bounds, and other ways to find inputs and maxima."""
