// Looks closer at a picture and moves it: by wheel, by drag, by buttons and by keys. Without it the whole is seen.
"use strict";
(() => {
  const NEAREST = 16;
  const STEP = 1.3;
  const drawing = () => document.querySelector("#picture > svg.drawing");
  const box = (svg) => svg.viewBox.baseVal;
  // What is seen is kept while the picture is looked at again, and for the address at which it was chosen alone.
  let seen = { at: "", whole: null, part: null };

  const place = () => document.getElementById("picture").dataset.view;
  const near = (svg) => seen.whole.width / box(svg).width;

  function look(svg, x, y, width) {
    const whole = seen.whole;
    const wide = Math.min(whole.width, Math.max(whole.width / NEAREST, width));
    const high = wide * whole.height / whole.width;
    const keep = (value, least, room) => Math.max(least - room / 2, Math.min(value, least + room * 1.5));
    const left = keep(x, whole.x, whole.width - wide), top = keep(y, whole.y, whole.height - high);
    svg.setAttribute("viewBox", `${left} ${top} ${wide} ${high}`);
    svg.classList.toggle("near", near(svg) >= 2 && near(svg) < 4);
    svg.classList.toggle("nearer", near(svg) >= 4);
    seen.part = { x: left, y: top, width: wide };
  }

  function zoom(svg, times, clientX, clientY) {
    const b = box(svg);
    const at = clientX === undefined ? { x: b.x + b.width / 2, y: b.y + b.height / 2 } : under(svg, clientX, clientY);
    const width = Math.min(seen.whole.width, Math.max(seen.whole.width / NEAREST, b.width / times));
    const ratio = width / b.width;
    look(svg, at.x - (at.x - b.x) * ratio, at.y - (at.y - b.y) * ratio, width);
  }

  const under = (svg, x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
  const move = (svg, right, down) => { const b = box(svg); look(svg, b.x + right, b.y + down, b.width); };

  function begin() {
    const svg = drawing();
    for (const slider of document.querySelectorAll("[data-moves]")) slider.hidden = false;
    if (!svg) return;
    const buttons = document.querySelector("#picture .zoom");
    if (buttons) buttons.hidden = false;
    const b = box(svg);
    if (seen.at !== place()) {
      seen = { at: place(), whole: { x: b.x, y: b.y, width: b.width, height: b.height }, part: null };
    } else if (seen.part && !svg.dataset.looked) {
      seen.whole = { x: b.x, y: b.y, width: b.width, height: b.height };
      look(svg, seen.part.x, seen.part.y, seen.part.width);
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-zoom]");
    const svg = button && drawing();
    if (!svg) return;
    if (button.dataset.zoom === "all") look(svg, seen.whole.x, seen.whole.y, seen.whole.width);
    else zoom(svg, button.dataset.zoom === "in" ? STEP : 1 / STEP);
  });

  // With Ctrl, as on maps inside of pages; the page itself still scrolls.
  document.addEventListener("wheel", (event) => {
    const svg = event.target.closest("#picture > svg.drawing");
    if (!svg || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoom(svg, event.deltaY < 0 ? 1.15 : 1 / 1.15, event.clientX, event.clientY);
  }, { passive: false });

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  document.addEventListener("keydown", (event) => {
    const svg = event.target.closest("#picture") && drawing();
    if (!svg || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = box(svg).width / 10;
    if (event.key === "+" || event.key === "=") zoom(svg, STEP);
    else if (event.key === "-") zoom(svg, 1 / STEP);
    else if (event.key === "0") look(svg, seen.whole.x, seen.whole.y, seen.whole.width);
    else if (ARROWS[event.key]) move(svg, ARROWS[event.key][0] * step, ARROWS[event.key][1] * step);
    else return;
    event.preventDefault();
  });
  // What has the focus is seen.
  document.addEventListener("focusin", (event) => {
    const dot = event.target.closest("#picture a.dot");
    const svg = dot && drawing();
    if (!svg || near(svg) <= 1) return;
    const at = dot.getBBox(), b = box(svg);
    if (at.x < b.x || at.y < b.y || at.x > b.x + b.width || at.y > b.y + b.height) {
      look(svg, at.x - b.width / 2, at.y - b.height / 2, b.width);
    }
  });

  let held = null;
  document.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest("#picture > svg.drawing");
    if (svg && event.button === 0) held = { svg, x: event.clientX, y: event.clientY, moved: false };
  });
  document.addEventListener("pointermove", (event) => {
    if (!held) return;
    const right = event.clientX - held.x, down = event.clientY - held.y;
    if (!held.moved && Math.hypot(right, down) < 4) return;
    held.moved = true;
    const scale = held.svg.getScreenCTM().a;
    move(held.svg, -right / scale, -down / scale);
    held.x = event.clientX;
    held.y = event.clientY;
  });
  document.addEventListener("pointerup", () => { setTimeout(() => { held = null; }); });
  document.addEventListener("pointercancel", () => { held = null; });
  document.addEventListener("dragstart", (event) => { if (event.target.closest("#picture")) event.preventDefault(); });
  // A drag that ends over a node is no click on it.
  document.addEventListener("click", (event) => {
    if (held && held.moved && event.target.closest("#picture a")) event.preventDefault();
  }, true);

  // A slider and the number beside it say the same.
  document.addEventListener("input", (event) => {
    const other = event.target.dataset.moves;
    if (other) document.getElementById(other).value = event.target.value;
    const slider = document.querySelector(`[data-moves="${CSS.escape(event.target.id)}"]`);
    if (slider) slider.value = event.target.value;
  });

  document.addEventListener("kgd:shown", begin);
  begin();
})();
