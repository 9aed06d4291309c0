// The controls beside the graph: its sliders, the order of its answers, the form of a path, and folding in a narrow window.
"use strict";
(() => {
  // Keep a slider and its number field in step.
  document.addEventListener("input", (event) => {
    const other = event.target.dataset.moves;
    if (other) document.getElementById(other).value = event.target.value;
    const slider = event.target.id && document.querySelector(`[data-moves="${CSS.escape(event.target.id)}"]`);
    if (slider) slider.value = event.target.value;
  });

  // Drop the answer to an outdated request: a newer request is under way.
  let changes = 0, asked = 0;
  const ofKnobs = (event) => event.target.closest && event.target.closest("form.knobs");
  for (const name of ["input", "change"]) document.addEventListener(name, (event) => { if (ofKnobs(event)) changes += 1; });
  document.addEventListener("htmx:configRequest", (event) => { if (ofKnobs(event)) asked = changes; });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const from = event.detail.requestConfig && event.detail.requestConfig.elt;
    if (from && from.matches("form.knobs") && asked !== changes) event.detail.shouldSwap = false;
  });

  // Opening the form of a path moves the focus to its first field.
  document.addEventListener("click", (event) => {
    const find = event.target.closest(".find > summary")?.parentElement;
    if (find && !find.open) setTimeout(() => find.querySelector("input:not([type=hidden])").focus());
  });

  const narrow = matchMedia("(max-width: 50rem)");
  const fold = () => { if (narrow.matches) document.getElementById("controls")?.removeAttribute("open"); };
  narrow.addEventListener("change", fold);
  fold();
})();
