"""What pytest leaves out: modules for an accelerator's compiler, where there is none."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/rkhs/_core/backend/fused.py"]
