// Python in the browser: Pyodide with NumPy, SciPy, scikit-learn and this library, which answers what a server would.

const NEEDED = ["numpy", "scipy", "scikit-learn"];
let started = null, answer = null, failure = "";

async function start(runtime) {
  const report = (text) => postMessage({ report: text });
  try {
    report("Loading Python ..");
    const { loadPyodide } = await import(`${runtime}pyodide.mjs`);
    const python = await loadPyodide({ indexURL: runtime });
    for (const name of NEEDED) {
      report(`Loading ${name} ..`);
      const problems = [];
      await python.loadPackage(name, { errorCallback: (text) => problems.push(text), messageCallback: () => {} });
      if (!(name in python.loadedPackages)) throw new Error(`${name} cannot be loaded from ${runtime} (${problems.join(" ")}).`);
    }
    report("Loading rkhs ..");
    const archive = await fetch(new URL("packages.zip", import.meta.url));
    if (!archive.ok) throw new Error(`packages.zip: ${archive.status}`);
    python.unpackArchive(await archive.arrayBuffer(), "zip", { extractDir: "/packages" });
    python.runPython("import sys; sys.path.append('/packages')");
    answer = python.pyimport("rkhs._play.scene").json_answer;
    postMessage({ ready: true });
  } catch (error) {
    failure = `Python does not start here: ${error.message} Install the library and run rkhs play.`;
    postMessage({ failed: failure });
  }
}

function answered(path, content) {
  try { return answer(path, content); } catch (error) { return JSON.stringify({ error: failure || error.message }); }
}

onmessage = async ({ data }) => {
  if (data.runtime) { started = start(data.runtime); return; }
  await started;
  postMessage({ id: data.id, answer: answered(data.path, data.content) });
};
