"""Array namespaces (NumPy, PyTorch), input validation, memory budgets, threads and matrix products in mixed precision."""
