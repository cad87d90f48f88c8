// Requests to the server of `rkhs play`, which is there when the page is.

export async function post(path, content) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });
  const given = await answer.json();
  if (!answer.ok) throw new Error(given.error);
  return given;
}
