// Type-ahead in the header's search field, and the palette of Ctrl-K and "/", by the pattern of an ARIA combobox: the focus stays
// in the field, and the arrow keys choose. The server renders the rows; without scripts the field searches.
"use strict";
(() => {
  const DELAY = 60;  // milliseconds without a key before the server is asked
  const FROM_PAGE = { "HX-Request": "true" };  // the answer then does not use up a message for the next page
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const say = (text) => {
    const line = document.getElementById("connection");
    line.textContent = text;
    line.hidden = false;
    setTimeout(() => { if (line.textContent === text) line.hidden = true; }, 4000);
  };
  // The viewer's last nodes and searches in this workspace: the rows of a palette without words. kgd.js forgets them.
  const LAST = `kgd-last ${dialog.dataset.rows} ${document.body.dataset.viewer}`, KEPT = 6;
  const last = () => JSON.parse(localStorage.getItem(LAST)) ?? { seen: [], asked: [] };
  const page = { ...document.getElementById("main").dataset }, shown = page.seen ?? page.asked;
  if (shown) {
    const kept = last(), kind = page.seen ? "seen" : "asked";
    kept[kind] = [...new Set([shown, ...kept[kind]])].slice(0, KEPT);
    localStorage.setItem(LAST, JSON.stringify(kept));
  }
  const DOES = {
    copy: () => navigator.clipboard.writeText(location.href).then(() => say("Link copied."), () => say(location.href)),
    keys: () => document.dispatchEvent(new Event("kgd:keys")),
  };

  class TypeAhead {
    // `first`: whether Enter opens the first row without a choice by arrow keys.
    constructor(field, list, { first, ends }) {
      Object.assign(this, { field, list, first, ends, settled: Promise.resolve() });
      field.setAttribute("role", "combobox");
      field.setAttribute("aria-autocomplete", "list");
      field.setAttribute("aria-controls", list.id);
      this.show(false);
      field.addEventListener("input", () => this.ask(DELAY));
      field.addEventListener("keydown", (event) => this.key(event));
      list.addEventListener("mousedown", (event) => event.preventDefault());  // the field keeps the focus
      list.addEventListener("click", (event) => this.act(event));
    }
    get rows() { return [...this.list.querySelectorAll("[role=option]")]; }
    get chosen() { return this.list.querySelector("[aria-selected=true]"); }
    show(is) {
      this.list.hidden = !is;
      this.field.setAttribute("aria-expanded", is);
      if (!is) { this.list.replaceChildren(); this.choose(null); }
    }
    ask(delay) {
      clearTimeout(this.timer);
      this.asking?.abort();
      const asking = this.asking = new AbortController();
      this.settled = new Promise((done) => {
        asking.signal.addEventListener("abort", done);
        this.timer = setTimeout(() => this.look(asking).finally(done), delay);
      });
    }
    async look(asking) {
      const words = new URLSearchParams({ q: this.field.value });
      if (page.seen && location.pathname.endsWith("/node")) words.set("at", page.seen);
      for (const [kind, texts] of Object.entries(this.field.value ? {} : last())) {
        texts.filter((text) => text !== shown).forEach((text) => words.append(kind, text));
      }
      const answer = await fetch(`${dialog.dataset.rows}?${words}`, { signal: asking.signal, headers: FROM_PAGE }).catch(() => null);
      const html = await answer?.text().catch(() => "");
      if (asking.signal.aborted) return;
      if (answer?.status === 401) location.reload();
      if (!answer?.ok) return this.show(false);
      this.list.innerHTML = html;
      this.show(true);
      this.rows.forEach((row, number) => { row.id = `${this.list.id}-${number}`; });
      this.choose(this.first ? this.rows[0] : null);
    }
    choose(row) {
      this.chosen?.setAttribute("aria-selected", "false");
      row?.setAttribute("aria-selected", "true");
      row?.scrollIntoView({ block: "nearest" });
      if (row) this.field.setAttribute("aria-activedescendant", row.id);
      else this.field.removeAttribute("aria-activedescendant");
    }
    key(event) {
      if (event.isComposing) return;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && this.rows.length) {
        const rows = this.rows, at = rows.indexOf(this.chosen);
        this.choose(rows[at < 0 && step < 0 ? rows.length - 1 : (at + step + rows.length) % rows.length]);
      } else if (event.key === "Enter" && (this.first || this.chosen || event.shiftKey)) {
        const { shiftKey } = event;
        this.settled.then(() => (shiftKey ? this.list.querySelector("[data-search]") : this.chosen)?.click());
      } else if (event.key === "Escape" && !this.list.hidden && !this.first) {
        this.close();
      } else return;
      event.preventDefault();
    }
    act(event) {
      const row = event.target.closest("[role=option]");
      if (!row || event.ctrlKey || event.metaKey) return;
      const does = DOES[row.dataset.does];
      if (row.form) return;  // its form leaves the page
      this.ends();
      does?.();
    }
    close() {
      clearTimeout(this.timer);
      this.asking?.abort();
      this.show(false);
    }
  }

  const inHeader = new TypeAhead(document.getElementById("q"), document.getElementById("q-list"), { first: false, ends: () => inHeader.close() });
  const hasKeys = matchMedia("(hover: hover) and ((40rem <= width <= 70rem) or (width >= 80rem))");
  const keys = navigator.platform.startsWith("Mac") ? "⌘K" : "Ctrl K";
  const hint = () => { inHeader.field.placeholder = hasKeys.matches ? `Search (${keys})` : "Search"; };
  hint();
  hasKeys.addEventListener("change", hint);
  inHeader.field.addEventListener("blur", () => inHeader.close());
  const inPalette = new TypeAhead(document.getElementById("palette-q"), document.getElementById("palette-list"), { first: true, ends: () => dialog.close() });
  dialog.addEventListener("close", () => inPalette.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });  // beside it

  const open = () => {
    if (dialog.open) return dialog.close();
    document.querySelectorAll("dialog[open]").forEach((one) => one.close());
    dialog.showModal();
    inPalette.field.value = "";
    inPalette.ask(0);
  };
  document.addEventListener("kgd:palette", open);
  document.querySelector("header .find").addEventListener("click", (event) => {
    event.preventDefault();
    open();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key?.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      open();
    }
  });
})();
