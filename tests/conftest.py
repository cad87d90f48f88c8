"""What must be so before anything is imported."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # scikit-learn's dispatch to tensors needs it
