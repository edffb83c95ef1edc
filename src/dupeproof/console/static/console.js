"use strict";
// A page that shows figures is fetched again every second while somebody can see it, and its live part replaced.

const EVERY = 1000;

// What somebody has chosen or typed is not taken away.
function inUse(shown) {
  const inputs = [...shown.querySelectorAll("input:not([type=hidden])")];
  return shown.contains(document.activeElement) || inputs.some((each) => each.checked || each.value !== each.defaultValue);
}

async function refresh() {
  const shown = document.querySelector("[data-live]");
  if (shown === null || document.hidden || inUse(shown)) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(String(answer.status));
    const fetched = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (inUse(shown)) return; // since it was asked for
    shown.replaceWith(fetched.querySelector("[data-live]"));
    offerAll();
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale"); // the server is away: what is shown is old, and looks so
  }
}

// A box that chooses all others of its table; of use only where scripts run.
function offerAll() {
  for (const box of document.querySelectorAll("[data-all]")) {
    box.hidden = false;
    box.addEventListener("change", () => {
      for (const each of box.closest("table").querySelectorAll("input[name=digest]")) each.checked = box.checked;
    });
  }
}

offerAll();

async function keepFresh() {
  await refresh();
  setTimeout(keepFresh, EVERY);
}

setTimeout(keepFresh, EVERY);
