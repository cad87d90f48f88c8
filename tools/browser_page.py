"""Write the page of `rkhs play` that computes in the browser: `python tools/browser_page.py FOLDER [--runtime PATH]`

The page is that of the server (`rkhs._play`), with Pyodide in a worker instead.  It takes Pyodide from `RUNTIME`, or
from a copy of PATH, a folder with the files of a release of Pyodide; then it needs no network.  Any server of static
files will do, such as ``python -m http.server``; browsers start no workers from files that they open without one.
"""

from __future__ import annotations

import argparse
import json
import shutil
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import array_api_compat

import rkhs

RUNTIME = "https://cdn.jsdelivr.net/pyodide/v314.0.7/full/"  # the only address; another release is another number
OURS = Path(__file__).resolve().parents[1] / "docs" / "play"
PAGE = Path(rkhs.__file__).parent / "_play" / "static"
INTERPRETER = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
NEEDED = ("numpy", "scipy", "scikit-learn")
NOTE = """<p class="hint">This page computes in your browser, which loads Python, NumPy, SciPy and scikit-learn first.
    What needs PyTorch (GPUs) or ducc0 (Fourier grids) is not available here.</p>
  </header>"""


def write_page(folder: Path, runtime: Path | None = None) -> None:
    """Write the page into a folder, with a copy of the files of Pyodide in `runtime` if that is given."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in (*PAGE.glob("*.js"), *PAGE.glob("*.css"), *OURS.glob("*.js")):
        shutil.copy(source, folder)
    (folder / "server.js").unlink()
    address = "runtime/" if runtime else RUNTIME
    text = (PAGE / "index.html").read_text(encoding="utf-8").replace("</header>", NOTE)
    text = text.replace('data-transport="./server.js"', f'data-transport="./browser.js" data-runtime="{address}"')
    (folder / "index.html").write_text(text, encoding="utf-8")
    write_packages(folder / "packages.zip")
    if runtime:
        copy_runtime(runtime, folder / "runtime")


def write_packages(path: Path) -> None:
    """Write the library and the pure package that Pyodide lacks into an archive."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for package in (rkhs, array_api_compat):
            home = Path(package.__file__).parent
            for file in sorted(home.rglob("*")):
                inside = file.relative_to(home.parent)
                if file.is_file() and "__pycache__" not in inside.parts and "_cli" not in inside.parts:
                    archive.write(file, inside.as_posix())
        metadata = distribution("rkhs").read_text("METADATA") or distribution("rkhs").read_text("PKG-INFO") or ""
        archive.writestr(f"rkhs-{rkhs.__version__}.dist-info/METADATA", metadata)


def copy_runtime(source: Path, target: Path) -> None:
    """Copy the interpreter and the packages that are needed, with those that they need."""
    packages = json.loads((source / "pyodide-lock.json").read_text())["packages"]
    wanted, found = list(NEEDED), set()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += packages[name]["depends"]
    files = [*INTERPRETER, *(packages[name]["file_name"] for name in sorted(found))]
    if missing := [name for name in files if not (source / name).exists()]:
        raise FileNotFoundError(f"{source} has no {', '.join(missing)}: take the full release of Pyodide.")
    target.mkdir(exist_ok=True)
    for name in files:
        shutil.copy(source / name, target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runtime", type=Path, help="a folder with the full release of Pyodide")
    given = parser.parse_args()
    write_page(given.folder, given.runtime)
