"""Tables, files, threads and texts: nothing here knows a Gaussian process."""
