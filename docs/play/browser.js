// Requests to Python in a worker of this browser, in the place of a server: server.js has the same two functions.

const { runtime } = document.body.dataset;
const worker = new Worker("./worker.js", { type: "module" });
const waiting = new Map();
let last = 0;

// Resolve when Python and the library are loaded; `report` shows how far that is.
export const connect = (report) => new Promise((resolve, reject) => {
  worker.onerror = (event) => reject(new Error(`Python does not start: ${event.message ?? "the worker failed"}.`));
  worker.onmessage = ({ data }) => {
    if (data.report) report(data.report);
    else if (data.failed) reject(new Error(data.failed));
    else if (data.ready) resolve();
    else {
      const { resolve: keep, reject: refuse } = waiting.get(data.id);
      waiting.delete(data.id);
      const given = JSON.parse(data.answer);
      if (given.error) refuse(new Error(given.error));
      else keep(given);
    }
  };
  worker.postMessage({ runtime: new URL(runtime, document.baseURI).href });
});

export const post = (path, content) => new Promise((resolve, reject) => {
  waiting.set(++last, { resolve, reject });
  worker.postMessage({ id: last, path, content: JSON.stringify(content) });
});
