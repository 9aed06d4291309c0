// Buttons with data-copy="TEXT" copy that text, and say so for a moment. Without scripts a style hides them.
"use strict";
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const label = button.innerHTML;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (button.innerHTML = label), 2000);
});
