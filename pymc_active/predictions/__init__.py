"""What to believe of the function, from one or several fits."""
