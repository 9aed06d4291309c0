// The menu of a node closes with Escape or a click elsewhere. It opens without scripts.
"use strict";
(() => {
  const opened = () => document.querySelector("details.menu[open]");
  document.addEventListener("click", (event) => {
    const menu = opened();
    if (menu && !menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && opened();
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
})();
