// Pages with a choice: shows the result of a choice at once, and counts what a button would change. Pages work without it.
//   data-dispute on a field of a conflict; data-value on each choice, data-same, data-a and data-b on parts, data-result on the result.
//   data-counts="NAMES" on a button: the ticked boxes of these names that its form would send; data-one and data-many are its text.
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
      button.dataset.plain ??= button.textContent;
      button.textContent = number ? button.dataset[number === 1 ? "one" : "many"].replace("%", number) : button.dataset.plain;
    }
  };
  document.addEventListener("change", (event) => {
    const dispute = event.target.closest("[data-dispute]");
    if (dispute && event.target.type === "radio") setTimeout(() => show(dispute));  // after a part has selected "parts"
    if (event.target.type === "checkbox") count();
  });
  document.addEventListener("kgd:shown", count);
  count();
})();
