"""What a process may take: the system's limits count, not only what the model has."""

import subprocess
import sys

import pytest

from rkhs._backend import memory

resource = pytest.importorskip("resource")


def test_a_limit_on_the_address_space_counts():
    code = (
        "import resource; from rkhs._backend.memory import free_main_memory;"
        "resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)); print(free_main_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 2**31


@pytest.mark.parametrize(("limit", "left"), [("1000000", 400_000), ("max", None), ("what?", None)])
def test_a_limit_of_a_container_counts(tmp_path, monkeypatch, limit, left):
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("600000\n")
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    found = memory.free_main_memory()
    assert found == left if left else found > 400_000  # which any computer has
