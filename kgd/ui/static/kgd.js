// Makes pages lively: what changed is looked at again, and a stream that broke is told. Without it they still work.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const connection = document.getElementById("connection");
  const tell = (text) => { connection.textContent = text; connection.hidden = !text; };
  const written = () => main().querySelector("form[data-written]");

  // A link that lets a browser in goes on by itself.
  const enter = document.getElementById("enter");
  if (enter) enter.requestSubmit();

  document.addEventListener("input", (event) => {
    const form = event.target.form;  // a field may stand outside of its form
    const sendsItself = form?.matches("[hx-get]");
    if (form && !sendsItself && main().contains(form)) form.dataset.written = "yes";
  });

  // Who writes a version of their own, or puts one together, has chosen that.
  document.addEventListener("input", (event) => {
    const chosen = event.target.closest("[data-chooses]");
    const choice = chosen && document.getElementById(chosen.dataset.chooses);
    if (choice) choice.checked = true;
  });

  // A browser has few connections to one server: a page that nobody sees lets go of its own, and looks again when it is.
  class Listening extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.look = () => (document.hidden ? this.rest() : this.source || this.begin());
      document.addEventListener("visibilitychange", this.look);
      this.look();
    }
    begin() {
      const source = this.source = new EventSource(this.url);
      source.onopen = (event) => {
        this.readyState = source.readyState;
        this.onopen?.(event);
        if (this.rested) this.dispatchEvent(new MessageEvent("changed"));
        this.rested = false;
      };
      source.onerror = (event) => {
        this.readyState = source.readyState;
        if (source.readyState === EventSource.CLOSED) this.close();
        this.onerror?.(event);
      };
      source.addEventListener("changed", (event) => this.dispatchEvent(new MessageEvent("changed", { data: event.data })));
    }
    rest() {
      this.source?.close();
      this.source = null;
      this.rested = true;
    }
    close() {
      document.removeEventListener("visibilitychange", this.look);
      this.source?.close();
    }
  }
  htmx.createEventSource = (url) => new Listening(url);

  let broken = false;
  document.body.addEventListener("htmx:sseError", () => {
    broken = true;
    tell("kgd does not answer. This page comes back by itself; “kgd ui” starts it again.");
  });
  document.body.addEventListener("htmx:sseOpen", () => {
    if (broken) {
      broken = false;
      tell("");
      htmx.trigger("#look-again", "sse:changed");
    }
  });

  // What somebody is writing is not written over by what others did meanwhile, nor by an answer that was on its way.
  const spared = (event, asker) => {
    if (asker?.id !== "look-again" || !written()) return;
    event.preventDefault();
    tell("Something changed meanwhile. Send or reload to see it.");
  };
  document.body.addEventListener("htmx:beforeRequest", (event) => spared(event, event.target));
  document.body.addEventListener("htmx:beforeSwap", (event) => spared(event, event.detail.requestConfig?.elt));
  // What somebody opened or closed stays so.
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
  // A form may have led to another address since this page was loaded.
  document.body.addEventListener("htmx:configRequest", (event) => {
    if (event.target.id === "look-again" && location.pathname.startsWith("/ui/w/")) {
      event.detail.path = location.pathname + location.search;
    }
  });
  // A session that ended answers with another page, which is shown whole.
  document.body.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) location.reload();
  });
  document.body.addEventListener("htmx:afterSwap", () => document.dispatchEvent(new Event("kgd:shown")));
})();
