// A confirmation's page turns into its outcome by itself: asks how it stands, and takes over the new page.
const main = document.getElementById("main");
const live = document.getElementById("live");
const PAUSE = 2000;
const PAUSE_AFTER_TROUBLE = 10000;

function watched() {
  return main.querySelector("[data-status]");
}

async function fresh() {
  const { status, stands } = watched().dataset;
  const answer = await fetch(status, { headers: { Accept: "application/json" }, cache: "no-store" });
  if (!answer.ok || answer.redirected) {
    throw new Error(`status ${answer.status}`);
  }
  return (await answer.json()).stands !== stands;
}

async function takeOver() {
  const answer = await fetch(location.pathname, { headers: { Accept: "text/html" }, cache: "no-store" });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = page.getElementById("main");
  if (!answer.ok || answer.redirected || next === null) {
    throw new Error(`page ${answer.status}`);
  }
  const hadFocus = main.contains(document.activeElement);
  main.replaceChildren(...next.childNodes);
  document.title = page.title;
  inReadersZone(main);
  live.textContent = main.querySelector("[data-said]")?.textContent ?? "";
  if (hadFocus) {
    main.focus();
  }
}

async function watch() {
  if (watched() === null) {
    return;
  }
  let pause = PAUSE;
  try {
    if (!document.hidden && (await fresh())) {
      await takeOver();
    }
  } catch {
    pause = PAUSE_AFTER_TROUBLE;
  }
  setTimeout(watch, pause);
}

setTimeout(watch, PAUSE);
