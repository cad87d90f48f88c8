"""Array namespaces (NumPy, PyTorch), input validation, memory budgets, threads and mixed-precision products."""
