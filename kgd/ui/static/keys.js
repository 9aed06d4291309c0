// Single-key shortcuts. Templates take part by attributes alone:
//   data-row      on each row of a list. j and k move between the rows; x toggles the first checkbox of a row; Enter opens its
//                 first link, which has the focus.
//   data-key="a"  on a link, button or field: the key follows, presses or focuses it. Its text, or its aria-label, is listed by "?".
// Shortcuts are off while a text is typed and while a dialog is open, and the switch in the dialog of "?" turns them off.
"use strict";
(() => {
  const OFF = "kgd-keys-off";
  const isOff = () => localStorage.getItem(OFF) === "yes";
  const isTyping = (target) => target.closest?.("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]");
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
    const target = shown("[data-key]").find((one) => one.dataset.key === key);
    if (!target) return false;
    target.focus();
    if (!isTyping(target)) target.click();
    return true;
  };
  const KEYS = { j: () => move(1), k: () => move(-1), x: choose };

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (isOff() || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const handled = KEYS[event.key]?.() || press(event.key);
    if (handled) event.preventDefault();
  });
})();
