// The menu of a node: copying its address, and closing with Escape or a click elsewhere. The menu opens without scripts.
"use strict";
(() => {
  const offer = () => document.querySelectorAll("[data-copies]").forEach((one) => { one.hidden = !navigator.clipboard; });
  offer();
  document.addEventListener("kgd:shown", offer);

  document.addEventListener("click", async (event) => {
    const menu = document.querySelector("details.menu[open]");
    if (menu && !menu.contains(event.target)) menu.open = false;
    const button = event.target.closest("[data-copies]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).value);
    button.textContent = "Copied";
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
})();
