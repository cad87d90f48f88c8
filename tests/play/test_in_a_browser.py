"""Play without a server: the solving module where Python has no threads, and the page with a worker in Chromium."""

import functools
import json
import os
import subprocess
import sys
import tomllib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

import pytest

from browser import Browser, needs_chromium
from browser_page import INTERPRETER, NEEDED, write_page
from rkhs._play.scene import answer, example, json_answer

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# What Pyodide is: no threads, processes or files of the system, packages without wheels for it, BLAS that is not found.
AS_IN_A_BROWSER = """
import builtins, os, sys, threading
import numpy, scipy.sparse.linalg, scipy.optimize, sklearn.ensemble, sklearn.neighbors, sklearn.svm, threadpoolctl
ABSENT = {"fcntl", "grp", "pwd", "resource", "termios", "_multiprocessing", "_posixshmem", "_ssl",
          "torch", "ducc0", "finufft", "pandas", "matplotlib", "pyarrow", "skops", "onnx", "dask", "rich", "typer",
          "skimage", "ase", "xarray", "geopandas", "pynndescent", "triton"}
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
for name in ABSENT:
    sys.modules.pop(name, None)
def refuse(*_, **__):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
threadpoolctl.ThreadpoolController.__init__ = refuse
sys.platform = "emscripten"
os.cpu_count = lambda: 8
del os.sysconf, os.fork
whole = builtins.open
def closed(path, *rest, **options):
    if str(path).startswith(("/proc", "/sys")):
        raise FileNotFoundError(path)
    return whole(path, *rest, **options)
builtins.open = closed
"""
SOLVE = """
import json
from rkhs._play.scene import json_answer
for name in ("moons", "rings"):
    text = json_answer("example", json.dumps({"name": name}))
    print(json_answer("solve", text))
"""
WITHOUT = """
import numpy as np, rkhs
X = np.random.default_rng(0).standard_normal((600, 144))
assert rkhs.preprocessing.Blur((12, 12)).fit_transform(X).shape == X.shape
assert rkhs.preprocessing.Deskew((12, 12)).fit_transform(X).shape == X.shape
y = X[:, 0] > 0
rkhs.InvariantClassifier(invariance=rkhs.invariances.Graph()).fit(X[:, :2], np.where(np.arange(600) < 100, y, -1))
assert rkhs.InvariantClassifierCV().fit(X[:60, :3], y[:60]).score(X[:60, :3], y[:60]) > 0.8
for use in (
    lambda: rkhs.gram(rkhs.kernels.AutodiffKernel(lambda x, y: x @ y), rkhs.Gradient(X[:5])).dense(),
    lambda: rkhs.InvariantRegressor(approximation=rkhs.FourierGrid()).fit(X[:, :2], X[:, 0]),
):
    try:
        use()
    except ImportError as error:
        print(error)
"""


def in_a_browser(code):
    done = subprocess.run([sys.executable, "-c", AS_IN_A_BROWSER + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_examples_are_solved_as_elsewhere():
    for name, line in zip(("moons", "rings"), in_a_browser(SOLVE), strict=True):
        found, ours = json.loads(line), answer("solve", example(name))
        assert found["certificate"]["certified"]
        assert found["certificate"]["primal"] == pytest.approx(ours["certificate"]["primal"], rel=1e-2)
        assert found["classes"] == ours["classes"]
        assert found["wrong"] == ours["wrong"] == 0


def test_what_else_works_and_what_says_that_it_needs_a_package():
    torch, grids = in_a_browser(WITHOUT)
    assert "needs PyTorch" in torch
    assert "ducc0" in grids


def test_errors_are_answers():
    for text in ("{", "null", '{"points": []}', json.dumps({**example("moons"), "C": -1})):
        assert json.loads(json_answer("solve", text))["error"]
    assert "examples are" in json.loads(json_answer("example", '{"name": "nothing"}'))["error"]
    assert "rkhs.Problem(" in json.loads(json_answer("code", json.dumps(example("rings"))))["code"]


# The page with a stand-in for Pyodide, whose Python is this process: the files of the real one are not in any package
# that tests can install.  It has the functions of Pyodide's interface that the worker uses.

STAND_IN = """
export async function loadPyodide({ indexURL }) {
  const loadedPackages = {};
  const call = (name, ...given) => {
    const request = new XMLHttpRequest();
    request.open("POST", new URL("../python/" + name, indexURL), false);
    request.send(JSON.stringify(given));
    return request.responseText;
  };
  return {
    loadedPackages,
    loadPackage: async (name, { errorCallback }) => {
      if (name === LACKING) errorCallback("no such file");
      else loadedPackages[name] = "default channel";
    },
    unpackArchive: (buffer, format, { extractDir }) => call("unpacked", buffer.byteLength, format, extractDir),
    runPython: (code) => call("ran", code),
    pyimport: (name) => ({ json_answer: (request, text) => call(name, request, text) }),
  };
}
"""


class Stage(SimpleHTTPRequestHandler):
    """Static files, and Python for the stand-in."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".wasm": "application/wasm"}

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.calls.append((unquote(self.path.rpartition("/")[2]), *given))
        content = (json_answer(*given) if self.path.endswith("rkhs._play.scene") else "").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def stage(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Stage, directory=tmp_path)) as server:
        server.calls, server.folder = [], tmp_path
        server.address = f"http://127.0.0.1:{server.server_port}/play/"
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def release(folder, lacking=None):
    """A folder like a release of Pyodide."""
    folder.mkdir()
    for name in INTERPRETER:
        (folder / name).write_text("")
    (folder / "pyodide.mjs").write_text(STAND_IN.replace("LACKING", json.dumps(lacking)))
    packages = {name: {"depends": [], "file_name": f"{name}.whl"} for name in (*NEEDED, "joblib")}
    packages["scikit-learn"]["depends"] = ["scipy", "joblib"]
    (folder / "pyodide-lock.json").write_text(json.dumps({"packages": packages}))
    for name in packages:
        (folder / f"{name}.whl").write_text("")
    return folder


@needs_chromium
def test_the_page_solves_in_a_worker(stage):
    write_page(stage.folder / "play", release(stage.folder / "release"))
    assert (stage.folder / "play" / "runtime" / "joblib.whl").exists()
    with Browser() as browser:
        page = browser.open(stage.address)
        page.wait("document.getElementById('verdict').className === 'good'", seconds=60)
        page.run("document.querySelector('[data-example=rings]').click()")
        page.wait("JSON.parse(sessionStorage.scene).points.length === 210")
        page.wait("document.getElementById('verdict').className === 'good'", seconds=60)
        page.run("navigator.clipboard.writeText = async (text) => { window.copied = text }")
        page.run("document.getElementById('copy').click()")
        page.wait("window.copied !== undefined")
        assert "rkhs.Problem(" in page.run("window.copied")
        page.run("document.getElementById('clear').click()")
        page.wait("document.getElementById('verdict').textContent.includes('two classes')")
        assert "PyTorch" in page.run("document.querySelector('header').innerText")
        assert page.complaints == []
    kinds = [name for name, *_ in stage.calls]
    assert kinds[:2] == ["unpacked", "ran"]
    assert stage.calls[0][1] == (stage.folder / "play" / "packages.zip").stat().st_size
    assert {request for name, request, *_ in stage.calls if name == "rkhs._play.scene"} == {"example", "solve", "code"}


@needs_chromium
@pytest.mark.parametrize("lacking", ["scipy", None])
def test_a_runtime_that_is_not_there_is_said(stage, lacking):
    write_page(stage.folder / "play", release(stage.folder / "release", lacking))
    if lacking is None:
        (stage.folder / "play" / "runtime" / "pyodide.mjs").unlink()
    with Browser() as browser:
        page = browser.open(stage.address)
        page.wait("document.getElementById('verdict').textContent.includes('does not start here')")
        text = page.run("document.getElementById('verdict').textContent")
    assert "rkhs play" in text
    assert lacking is None or "scipy cannot be loaded from http" in text


@needs_chromium
@pytest.mark.skipif("RKHS_PYODIDE" not in os.environ, reason="RKHS_PYODIDE does not name a full release of Pyodide")
def test_pyodide_itself(stage):
    write_page(stage.folder / "play", Path(os.environ["RKHS_PYODIDE"]))
    with Browser() as browser:
        page = browser.open(stage.address)
        page.wait("document.getElementById('verdict').className === 'good'", seconds=300)
        page.run("document.querySelector('[data-example=rings]').click()")
        page.wait("JSON.parse(sessionStorage.scene).points.length === 210")
        page.wait("document.getElementById('verdict').className === 'good'", seconds=15)
        assert page.complaints == []
    assert stage.calls == []  # the stand-in was not asked


def test_a_release_without_a_package_is_refused(tmp_path):
    folder = release(tmp_path / "release")
    (folder / "joblib.whl").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no joblib.whl: take the full release"):
        write_page(tmp_path / "play", folder)


def test_every_extra_is_absent_there():
    """The simulation lacks a package of each extra of the library."""
    absent = {name for name in AS_IN_A_BROWSER.split('"')[1::2] if name.isidentifier()}
    names = {"gpu": "torch", "maps": "ducc0", "plot": "matplotlib", "geo": "xarray", "graphs": "pynndescent"}
    assert set(names) <= set(EXTRAS)
    assert set(names.values()) <= absent
