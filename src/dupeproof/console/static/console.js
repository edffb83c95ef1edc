"use strict";
// A page that shows figures is fetched again every second while somebody can see it, and its live part replaced.

const EVERY = 1000;

async function refresh() {
  const shown = document.querySelector("[data-live]");
  if (shown === null || document.hidden || shown.contains(document.activeElement)) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(String(answer.status));
    const fetched = new DOMParser().parseFromString(await answer.text(), "text/html");
    shown.replaceWith(fetched.querySelector("[data-live]"));
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale"); // the server is away: what is shown is old, and looks so
  }
}

async function keepFresh() {
  await refresh();
  setTimeout(keepFresh, EVERY);
}

setTimeout(keepFresh, EVERY);
