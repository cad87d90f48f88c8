"""Array namespaces (NumPy, PyTorch), input checks and memory budgets: the floor everything stands on."""
