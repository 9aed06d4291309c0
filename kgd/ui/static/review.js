// Pages with a choice: shows the result of a choice at once, enables a button once it can work, and counts what a button would change. Pages work without it.
//   data-dispute on a field of a conflict; data-value on each choice, data-same, data-a and data-b on parts, data-result on the result.
//   data-needs-choice on a button that is disabled until each field has a choice; data-without-choice on a text shown until then.
//   data-counts="NAMES" on a button: the ticked boxes of these names that its form would send; data-one and data-many are its text.
//   data-needs-tick on such a button: it is disabled while there are none; data-without-tick on a text shown until then.
//   data-ticks="ELEMENT" on a hidden button: shows it; it ticks all visible boxes of the nearest such element, or unticks them if all are ticked.
"use strict";
(() => {
  const withBreak = (text) => (!text || text.endsWith("\n") ? text : `${text}\n`);
  const part = (one) => {
    if (one.dataset.same !== undefined) return one.dataset.same;
    const { a, b } = one.dataset;
    return { a, b, both: withBreak(a) + b, none: "" }[one.querySelector("input:checked")?.value] ?? "";
  };
  const show = (dispute) => {
    const result = dispute.querySelector("[data-result]");
    const chosen = dispute.querySelector("input[name^=take-]:checked");
    if (!result || !chosen || chosen.value === "own") return;
    const parts = [...dispute.querySelectorAll(".parts > li")];
    const text = chosen.value === "parts"
      ? parts.map((one) => (one.dataset.title ? `${one.dataset.title}: ${part(one)}\n` : part(one))).join("")
      : chosen.dataset.value ?? "";
    result.value = chosen.value === "later" ? "" : text;
  };
  const count = () => {
    for (const button of document.querySelectorAll("[data-counts]")) {
      const names = button.dataset.counts.split(" ");
      const number = [...button.form.elements].filter((one) => one.checked && names.includes(one.name)).length;
      if (button.dataset.needsTick !== undefined) button.disabled = !number;
      button.dataset.plain ??= button.textContent;
      button.textContent = number ? button.dataset[number === 1 ? "one" : "many"].replace("%", number) : button.dataset.plain;
    }
    for (const hint of document.querySelectorAll("[data-without-tick]")) hint.hidden = !document.querySelector("[data-needs-tick]:disabled");
  };
  const mayResolve = () => {
    const disputes = [...document.querySelectorAll("[data-dispute]")];
    const takes = disputes.map((one) => one.querySelector("input[name^=take-]:checked")?.value);
    const ready = takes.every(Boolean) && takes.some((one) => one !== "later");
    for (const button of document.querySelectorAll("[data-needs-choice]")) button.disabled = !ready;
    for (const hint of document.querySelectorAll("[data-without-choice]")) hint.hidden = ready;
  };
  document.addEventListener("input", () => setTimeout(mayResolve));  // after typing has selected the edited text
  document.addEventListener("change", (event) => {
    const dispute = event.target.closest("[data-dispute]");
    if (dispute && event.target.type === "radio") setTimeout(() => show(dispute));  // after a part has selected "parts"
    if (event.target.type === "checkbox") count();
  });
  document.addEventListener("click", (event) => {
    const all = event.target.closest("[data-ticks]");
    if (!all) return;
    const boxes = [...all.closest(all.dataset.ticks).querySelectorAll("input[type=checkbox]:enabled")].filter((one) => one.checkVisibility());
    const ticks = boxes.some((one) => !one.checked);
    for (const one of boxes) if (one.checked !== ticks) one.click();  // as a user does, so that the page notices it
  });
  const begin = () => {
    for (const all of document.querySelectorAll("[data-ticks]")) all.hidden = false;
    count();
    mayResolve();
  };
  document.addEventListener("kgd:shown", begin);
  begin();
})();
