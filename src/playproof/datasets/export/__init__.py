"""Export of data sets to NumPy, PyTorch, Minari and Hugging Face."""
