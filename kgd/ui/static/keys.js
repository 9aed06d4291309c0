// Single-key shortcuts. Templates take part by attributes alone:
//   data-row      on each row of a list. j and k move between the rows; x toggles the first checkbox of a row; Enter opens its
//                 first link, which has the focus.
//   data-key="a"  on a link, button or field: the key follows, presses or focuses it; in a row, only while the row has the focus,
//                 which then stays there. "?" lists its aria-label, or its text; in a row, its text.
//   data-go="c"   on a link: g, then the key, follows it.
// Shortcuts are off while a text is typed and while a dialog is open, and the switch in the dialog of "?" turns them off.
"use strict";
(() => {
  const OFF = "kgd-keys-off", FOLLOWS = 1500;
  const dialog = document.getElementById("keys");
  const isOff = () => localStorage.getItem(OFF) === "yes";
  // A field of a closed dialog may keep the focus until the next frame.
  const TEXT_FIELDS = "input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]";
  const isTyping = (target) => target.closest?.(TEXT_FIELDS)?.checkVisibility();
  const shown = (selector, within = document) => [...within.querySelectorAll(selector)].filter((one) => one.checkVisibility());
  const rowOf = () => document.activeElement?.closest("[data-row]");

  const move = (step) => {
    const rows = shown("[data-row]");
    const at = rows.indexOf(rowOf());
    const row = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1)];
    if (!row) return false;
    (shown("a[href]", row)[0] || shown("summary, button, input", row)[0])?.focus();
    row.scrollIntoView({ block: "nearest" });
    return true;
  };
  const choose = () => {
    const row = rowOf();
    const box = row && shown("input[type=checkbox]", row)[0];
    box?.click();
    return !!box;
  };
  const press = (key) => {
    const target = shown("[data-key]").find((one) => one.dataset.key === key && [null, rowOf()].includes(one.closest("[data-row]")));
    if (!target) return false;
    if (!target.closest("[data-row]")) target.focus();
    if (!isTyping(target)) target.click();
    return true;
  };
  const say = (event) => { document.dispatchEvent(new Event(event)); return true; };
  let going = 0;  // when "g" was pressed
  const go = (key) => {
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    link?.click();
    return !!link;
  };
  const KEYS = {
    j: () => move(1), k: () => move(-1), x: choose, "?": () => say("kgd:keys"), "/": () => say("kgd:palette"),
    g: () => { going = Date.now(); return true; },
  };

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Shift" || isOff() || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const follows = Date.now() - going < FOLLOWS;
    going = 0;
    if (follows ? go(event.key) : KEYS[event.key]?.() || press(event.key)) event.preventDefault();
  });

  if (!dialog) return;
  const own = dialog.querySelector("[data-own]");
  const row = (key, text) => {
    const term = document.createElement("dt"), means = document.createElement("dd"), cap = document.createElement("kbd");
    cap.textContent = key;
    term.append(cap);
    means.textContent = text;
    return [term, means];
  };
  document.addEventListener("kgd:keys", () => {
    const text = (one) => (!one.closest("[data-row]") && one.ariaLabel) || one.textContent.trim();
    const here = new Map(shown("[data-key]", document.getElementById("main")).map((one) => [one.dataset.key, text(one)]));
    own.replaceChildren(...[...here].flatMap(([key, means]) => row(key, means)));
    own.parentElement.hidden = !here.size;
    dialog.querySelector("[role=switch]").checked = !isOff();
    dialog.showModal();
  });
  dialog.addEventListener("change", (event) => localStorage.setItem(OFF, event.target.checked ? "no" : "yes"));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });  // beside it
  const item = document.getElementById("show-keys");
  item.hidden = false;
  item.addEventListener("click", () => say("kgd:keys"));
})();
