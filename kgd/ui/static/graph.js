// Zooms and moves the graph by wheel, drag, buttons and keys. Without it the whole graph is shown.
"use strict";
(() => {
  const NEAREST = 16;
  const STEP = 1.3;
  const REST = 120;
  const drawing = () => document.querySelector("#picture > svg.drawing");
  const place = () => document.getElementById("picture").dataset.view;
  // The view is kept over refreshes, but only for the address at which it was chosen.
  let seen = { at: "", whole: null, part: null };
  let resting = 0;

  const near = () => seen.whole.width / seen.part.width;
  const within = (value, least, most) => Math.max(least, Math.min(most, value));

  // Pixels per unit of the picture, which is centred in its box.
  const scale = (svg, part) => Math.min(svg.clientWidth / part.width, svg.clientHeight / part.height);
  const middle = (part) => [part.x + part.width / 2, part.y + part.height / 2];

  function under(svg, clientX, clientY) {
    const box = document.getElementById("picture").getBoundingClientRect(), [x, y] = middle(seen.part);
    const k = scale(svg, seen.part);
    return { x: x + (clientX - box.x - svg.clientWidth / 2) / k, y: y + (clientY - box.y - svg.clientHeight / 2) / k };
  }

  // A moving picture is only transformed, which is fast; it is painted again once the movement stops.
  function look(svg, x, y, width, byHand = false) {
    const whole = seen.whole;
    const wide = within(width, whole.width / NEAREST, whole.width), high = wide * whole.height / whole.width;
    seen.part = {
      x: within(x, whole.x - wide / 2, whole.x + whole.width - wide / 2),
      y: within(y, whole.y - high / 2, whole.y + whole.height - high / 2), width: wide, height: high,
    };
    clearTimeout(resting);
    if (!byHand) return paint(svg);
    const painted = svg.viewBox.baseVal, k = scale(svg, seen.part);
    const [fromX, fromY] = middle(painted), [toX, toY] = middle(seen.part);
    svg.style.transform = `translate(${k * (fromX - toX)}px, ${k * (fromY - toY)}px) scale(${painted.width / wide})`;
    resting = setTimeout(() => paint(svg), REST);
  }

  function paint(svg) {
    const { x, y, width, height } = seen.part;
    svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
    svg.style.transform = "";
    svg.classList.toggle("near", near() >= 2 && near() < 4);
    svg.classList.toggle("nearer", near() >= 4);
  }

  function zoom(svg, times, at, byHand = false) {
    const part = seen.part, [x, y] = at ? [at.x, at.y] : middle(part);
    const ratio = within(part.width / times, seen.whole.width / NEAREST, seen.whole.width) / part.width;
    look(svg, x - (x - part.x) * ratio, y - (y - part.y) * ratio, part.width * ratio, byHand);
  }

  const all = (svg) => look(svg, seen.whole.x, seen.whole.y, seen.whole.width);
  const move = (svg, right, down, byHand = false) =>
    look(svg, seen.part.x + right, seen.part.y + down, seen.part.width, byHand);

  function begin() {
    const svg = drawing();
    if (!svg) return;
    const { x, y, width, height } = svg.viewBox.baseVal;
    const before = seen;
    seen = { at: place(), whole: { x, y, width, height }, part: { x, y, width, height } };
    svg.classList.remove("near", "nearer");
    if (before.at === seen.at && before.part.width < before.whole.width) {
      look(svg, before.part.x, before.part.y, before.part.width);
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-zoom]");
    const svg = button && drawing();
    if (!svg) return;
    if (button.dataset.zoom === "all") all(svg);
    else zoom(svg, button.dataset.zoom === "in" ? STEP : 1 / STEP);
  });

  // Zoom needs Ctrl, as on embedded maps: the wheel alone scrolls the page.
  document.addEventListener("wheel", (event) => {
    const svg = event.target.closest("#picture > svg.drawing");
    if (!svg || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoom(svg, event.deltaY < 0 ? 1.15 : 1 / 1.15, under(svg, event.clientX, event.clientY), true);
  }, { passive: false });

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  document.addEventListener("keydown", (event) => {
    const svg = event.target.closest("#picture") && drawing();
    if (!svg || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = seen.part.width / 10;
    if (event.key === "+" || event.key === "=") zoom(svg, STEP);
    else if (event.key === "-") zoom(svg, 1 / STEP);
    else if (event.key === "0") all(svg);
    else if (ARROWS[event.key]) move(svg, ARROWS[event.key][0] * step, ARROWS[event.key][1] * step);
    else return;
    event.preventDefault();
  });

  // Move the view to the focused node.
  document.addEventListener("focusin", (event) => {
    const dot = event.target.closest("#picture a.dot");
    const svg = dot && drawing();
    if (!svg || near() <= 1) return;
    const at = dot.getBBox(), part = seen.part;
    if (at.x < part.x || at.y < part.y || at.x > part.x + part.width || at.y > part.y + part.height) {
      look(svg, at.x - part.width / 2, at.y - part.height / 2, part.width);
    }
  });

  let held = null;
  document.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest("#picture > svg.drawing");
    held = svg && event.button === 0 ? { svg, x: event.clientX, y: event.clientY, moved: false } : null;
  });
  document.addEventListener("pointermove", (event) => {
    if (!held || !event.buttons) return;
    const right = event.clientX - held.x, down = event.clientY - held.y;
    if (!held.moved && Math.hypot(right, down) < 4) return;
    const k = scale(held.svg, seen.part);
    move(held.svg, -right / k, -down / k, true);
    held = { ...held, x: event.clientX, y: event.clientY, moved: true };
  });
  document.addEventListener("dragstart", (event) => { if (event.target.closest("#picture")) event.preventDefault(); });
  // A drag that ends over a node is not a click.
  document.addEventListener("click", (event) => {
    if (held && held.moved && event.target.closest("#picture a")) event.preventDefault();
    held = null;
  }, true);

  // Expanding a node replaces the picture in place: loading a page takes twice as long.
  document.addEventListener("click", (event) => {
    const dot = event.target.closest("#picture a.dot");
    if (!dot || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const to = new URL(dot.href.baseVal, location);
    if (to.pathname !== location.pathname) return;
    event.preventDefault();
    const again = dot === document.activeElement && `#picture a.dot[data-uri="${CSS.escape(dot.dataset.uri)}"]`;
    htmx.ajax("GET", to.pathname + to.search, { source: document.getElementById("picture") }).then(() => {
      if (again) document.querySelector(again)?.focus();
    }, () => {});  // an event reports the failure
  });
  for (const name of ["htmx:responseError", "htmx:sendError"]) document.addEventListener(name, (event) => {
    if (event.detail.elt.id === "picture") location.assign(event.detail.requestConfig.path);
  });

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

  document.documentElement.classList.add("scripted");
  document.addEventListener("kgd:shown", begin);
  begin();
})();
