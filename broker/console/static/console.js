"use strict";
// Everything works without this: it refreshes what is live, sorts in place, asks before something is deleted, and follows a topic.

const live = document.getElementById("live");
const refresh = document.getElementById("refresh");
let source = null;

function headings() {
  return [...document.querySelectorAll("thead a")];
}

function isInUse() {
  const used = live.contains(document.activeElement) && !document.activeElement.closest("thead");
  return used || live.querySelector("details[open]") || String(getSelection());
}

async function pageAt(address) {
  const answer = await fetch(address);
  if (answer.redirected || !answer.ok) throw new Error(`status ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Do what replaces tables; who had the focus on a heading has it there afterwards.
function keepingFocus(replace) {
  const at = headings().indexOf(document.activeElement);
  replace();
  headings()[at]?.focus();
}

async function refreshLive() {
  if (document.hidden || !refresh.checked || isInUse()) return;
  const said = document.getElementById("refreshed");
  try {
    const fresh = (await pageAt(location.href)).getElementById("live");
    if (fresh && !isInUse()) keepingFocus(() => live.replaceChildren(...fresh.childNodes));
    said.textContent = "";
  } catch (error) {
    said.textContent = `Not refreshed: ${error.message}`;
  }
}

// A heading sorts its table without a new page, if nothing is in the way.
async function sortBy(link) {
  try {
    const parts = (page) => [...page.querySelectorAll(".table, .paging, .kept, .partly")];
    const fresh = parts(await pageAt(link.href));
    const old = parts(document);
    if (fresh.length !== old.length) throw new Error("it has other parts");
    keepingFocus(() => old.forEach((one, at) => one.replaceWith(fresh[at])));
    history.replaceState(null, "", link.href);
  } catch {
    location.assign(link.href);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("thead a");
  if (!link || source || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  sortBy(link);
});

// A browser leaves what is half hidden as it is: in a table that scrolls sideways the focus is to be seen whole.
document.addEventListener("focusin", (event) => {
  const one = event.target;
  if (one.closest("table") && one.matches(":focus-visible")) one.scrollIntoView({ block: "nearest", inline: "nearest" });
});

if (live && refresh) setInterval(refreshLive, 1000 * Number(live.dataset.seconds));

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

const MOST_ROWS = 500;
const follow = document.getElementById("follow");

function stopFollowing() {
  source.close();
  source = null;
  follow.textContent = "Follow";
  follow.setAttribute("aria-pressed", "false");
}

function startFollowing() {
  const rows = document.querySelector("#records tbody");
  const said = document.getElementById("followed");
  let seen = 0;
  source = new EventSource(follow.dataset.address);
  follow.textContent = "Stop following";
  follow.setAttribute("aria-pressed", "true");
  said.textContent = "Connecting";
  source.onopen = () => { said.textContent = "Waiting for records"; };
  source.addEventListener("records", (event) => {
    const fresh = document.createElement("template");
    fresh.innerHTML = event.data;
    for (const row of [...fresh.content.querySelectorAll("tr")]) {
      row.classList.add("fresh");
      rows.prepend(row);
      seen += 1;
    }
    while (rows.rows.length > MOST_ROWS) rows.lastElementChild.remove();
    said.textContent = `New records: ${seen}`;
  });
  source.addEventListener("skipped", (event) => { said.textContent = `Too many to show; skipped: ${event.data}`; });
  source.addEventListener("over", (event) => { stopFollowing(); said.textContent = event.data; });
  source.onerror = () => { stopFollowing(); said.textContent = "The broker has ended this"; };
}

if (follow) {
  follow.hidden = false;
  follow.addEventListener("click", () => (source ? stopFollowing() : startFollowing()));
}

// A key or value that somebody types is no null.
for (const field of document.querySelectorAll("textarea[data-kind]")) {
  field.addEventListener("input", () => {
    const kind = field.form.elements[field.dataset.kind];
    if (field.value && kind.value === "null") kind.value = "text";
  });
}

const headers = document.getElementById("headers");
const more = document.getElementById("more-headers");

function addHeader() {
  const rows = headers.querySelectorAll(".header");
  const row = rows[rows.length - 1].cloneNode(true);
  for (const field of row.querySelectorAll("input, select")) {
    field.name = field.name.replace(/[0-9]+$/, rows.length);
    if (field.tagName === "INPUT") field.value = "";
    else field.selectedIndex = 0;
  }
  more.before(row);
  row.querySelector("input").focus();
  more.hidden = rows.length + 1 >= Number(headers.dataset.most);
}

if (more) {
  more.hidden = headers.querySelectorAll(".header").length >= Number(headers.dataset.most);
  more.addEventListener("click", addHeader);
}
