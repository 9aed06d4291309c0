// Buttons with data-copy="TEXT" copy that text, and say so for a moment; without permission to copy, they select it in the
// element before them, or after them if they are the first. Without scripts a style hides them. Each block of code of the manual gets such a button, except
// printed output.
"use strict";
document.querySelectorAll(".manual pre:not([data-language=text])").forEach((block) => {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "quiet copy", textContent: "Copy", ariaLabel: "Copy this block" });
  button.dataset.copy = block.textContent;
  block.prepend(button);
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const label = button.innerHTML;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    const shown = button.previousElementSibling || button.nextElementSibling;
    if (shown.matches("input")) {
      shown.focus();
      shown.select();
    } else getSelection().selectAllChildren(shown);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (button.innerHTML = label), 2000);
});
