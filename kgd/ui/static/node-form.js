// The form of a fact: counts the characters of its summary, lists similar facts while a new one is typed, and offers facts after
// "[[" in its content and in each line of its relations. Without it, the form works as usual.
"use strict";
(() => {
  const DELAY = 200, SIMILAR = 3, LONGEST = 100, LEAST = 3;  // milliseconds, facts, and characters
  const FROM_PAGE = { "HX-Request": "true" };  // the answer then does not use up a message for the next page
  const form = document.querySelector("form.edit");
  if (!form) return;
  // The facts that a search finds: the answer that the fields of relations use as their suggestions.
  async function facts(words, signal) {
    const answer = await fetch(`${form.dataset.suggests}?${new URLSearchParams({ q: words })}`, { signal, headers: FROM_PAGE }).catch(() => null);
    if (!answer?.ok) return [];
    const list = document.createElement("template");
    list.innerHTML = await answer.text();
    return [...list.content.querySelectorAll("option")].map((one) => {
      const [name, ...more] = one.textContent.split(": ");
      return { uri: one.getAttribute("value"), name, summary: more.join(": ") };
    });
  }
  // Calls `then` with the facts for the last words that were typed; earlier answers are dropped.
  function asker(then) {
    let timer = 0, asking = null;
    return (words) => {
      clearTimeout(timer);
      asking?.abort();
      const { signal } = asking = new AbortController();
      if (words === null || words.trim().length < LEAST) return then([]);
      timer = setTimeout(async () => {
        const found = await facts(words, signal);
        if (!signal.aborted) then(found);
      }, DELAY);
    };
  }

  for (const counter of form.querySelectorAll("[data-counts-characters]")) {
    const field = document.getElementById(counter.dataset.countsCharacters);
    const count = () => {
      const { length } = [...field.value.trim()];
      counter.textContent = `${length} / ${LONGEST}`;
      counter.classList.toggle("bad", length > LONGEST);
      counter.hidden = false;
    };
    field.addEventListener("input", count);
    count();
  }

  // In a narrow window, similar facts are below the summary, otherwise beside the form.
  const similar = document.getElementById("similar"), like = document.getElementById(similar.dataset.like);
  const beside = similar.parentElement, narrow = matchMedia("(max-width: 63.99rem)");
  const move = () => (narrow.matches ? like.parentElement.after(similar) : beside.prepend(similar));
  narrow.addEventListener("change", move);
  move();
  const made = (tag, ...content) => {
    const element = document.createElement(tag);
    element.append(...content);
    return element;
  };
  const isOther = ({ uri }) => uri !== similar.dataset.but && !/^(atom|molecule|file|dir|symbol|chunk):/.test(uri);
  const ask = asker((found) => {
    const others = found.filter(isOther).slice(0, SIMILAR), list = made("ul", ...others.map(({ uri, name, summary }) => {
      const link = Object.assign(made("a", name), { href: `${form.dataset.node}?${new URLSearchParams({ uri })}`, title: summary });
      return made("li", link, Object.assign(made("span", ` ${summary}`), { className: "aside" }));
    }));
    list.className = "plain";
    similar.replaceChildren(...(others.length ? [made("h2", "Similar facts"), list] : []));
    similar.hidden = !others.length;
  });
  like.addEventListener("input", () => ask(like.value));
  if (!similar.dataset.but) ask(like.value);  // a stored fact has its own name

  // A field of one line ends with Enter, as an input does.
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || !event.target.matches(".line")) return;
    event.preventDefault();
    form.requestSubmit(form.querySelector(".confirm button"));
  });

  // The words that the cursor follows: after "[[", or of its line.
  const WORDS = {
    links: (before) => /\[\[([^\[\]\n]*)$/.exec(before)?.[1] ?? null,
    lines: (before, after) => (/^\S/.test(after) ? null : before.slice(before.lastIndexOf("\n") + 1)),
  };
  class Offers {
    constructor(field, number) {
      this.field = field;
      const looks = { id: `offers-${number}`, className: "offers choices", role: "listbox", ariaLabel: "Facts", hidden: true };
      this.list = Object.assign(document.createElement("span"), looks);
      field.after(this.list);
      field.autocomplete = "off";
      const roles = { "aria-autocomplete": "list", "aria-haspopup": "listbox", "aria-controls": this.list.id };
      for (const [name, value] of Object.entries(roles)) field.setAttribute(name, value);
      const ask = asker((found) => this.show(found));
      field.addEventListener("input", () => ask(this.words()));
      field.addEventListener("keydown", (event) => this.key(event));
      field.addEventListener("blur", () => ask(null));
      this.list.addEventListener("mousedown", (event) => event.preventDefault());  // the field keeps the focus
      this.list.addEventListener("click", (event) => this.take(event.target.closest("[role=option]")));
    }
    get rows() { return [...this.list.children]; }
    get chosen() { return this.list.querySelector("[aria-selected=true]"); }
    words() {
      const { value, selectionStart: end } = this.field;
      return WORDS[this.field.dataset.offers](value.slice(0, end), value.slice(end));
    }
    show(found) {
      this.list.replaceChildren(...found.map(({ uri, name, summary }, number) => {
        const row = Object.assign(document.createElement("span"), { id: `${this.list.id}-${number}`, role: "option", textContent: name });
        row.dataset.uri = uri;
        row.append(Object.assign(document.createElement("span"), { className: "aside", textContent: summary }));
        return row;
      }));
      this.list.hidden = !found.length;
      this.choose(this.rows[0]);
      if (found.length) this.list.scrollIntoView({ block: "nearest" });
    }
    choose(row) {
      this.rows.forEach((one) => one.setAttribute("aria-selected", one === row));
      row?.scrollIntoView({ block: "nearest" });
      if (row) this.field.setAttribute("aria-activedescendant", row.id);
      else this.field.removeAttribute("aria-activedescendant");
    }
    key(event) {
      if (this.list.hidden || event.isComposing || event.shiftKey) return;
      const { rows } = this, step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) this.choose(rows[(rows.indexOf(this.chosen) + step + rows.length) % rows.length]);
      else if (event.key === "Enter") this.take(this.chosen);
      else if (event.key === "Escape") this.show([]);
      else return;
      event.preventDefault();
    }
    // Replaces the words by the URI of a fact; the browser's undo brings them back.
    take(row) {
      if (!row) return;
      const words = this.words(), end = this.field.selectionStart, isLink = this.field.dataset.offers === "links";
      const isClosed = this.field.value.slice(end).startsWith("]]");
      this.field.setSelectionRange(end - words.length, end + (isLink && isClosed ? 2 : 0));
      document.execCommand("insertText", false, `${row.dataset.uri}${isLink ? "]]" : ""}`);
      this.show([]);
    }
  }
  form.querySelectorAll("[data-offers]").forEach((field, number) => new Offers(field, number));
})();
