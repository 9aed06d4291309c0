// Live pages: refreshes a page when its workspace changes, and reports a lost connection. Pages work without it.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const connection = document.getElementById("connection");
  const tell = (text) => { connection.textContent = text; connection.hidden = !text; };
  const written = () => main().querySelector("form[data-written]");

  // A theme keeps the page as it is now: a form may have changed its address. The answer to a form has no such address.
  document.addEventListener("submit", ({ target }) => {
    const back = target.matches(".themes") && target.elements.back;
    if (back && new URL(back.value, location).pathname === location.pathname) back.value = location.href.slice(location.origin.length);
  });

  // The manual leads back to the workspace that this tab showed last to the same viewer.
  const shown = `kgd-workspace ${document.body.dataset.viewer}`, back = document.querySelector("#back > a");
  const workspace = /^\/ui\/w\/([^/]+)\//.exec(location.pathname)?.[1];
  if (workspace) sessionStorage.setItem(shown, workspace);
  const left = sessionStorage.getItem(shown);
  if (back && left) {
    back.href = `/ui/w/${left}/overview`;
    back.textContent = `Back to ${decodeURIComponent(left)}`;
  }

  // Follow a sign-in link at once.
  const enter = document.getElementById("enter");
  if (enter) enter.requestSubmit();

  // Puts the cursor at the end of a text that the server has begun; browsers put it at the beginning.
  const begun = document.querySelector("main input[autofocus]:not([type])");
  begun?.setSelectionRange(begun.value.length, begun.value.length);

  document.addEventListener("input", (event) => {
    const form = event.target.form;  // a field may be outside its form
    const sendsItself = form?.matches("[hx-get]");
    if (form && !sendsItself && main().contains(form)) form.dataset.written = "yes";
  });

  // Typing a version, or combining one, also selects it.
  document.addEventListener("input", (event) => {
    const chosen = event.target.closest("[data-chooses]");
    const choice = chosen && document.getElementById(chosen.dataset.chooses);
    if (choice) choice.checked = true;
  });

  // The commit that a refreshed page must include; it may come from a hub that does not have it yet.
  let position = "";

  // Browsers allow few connections per server, so a hidden page closes its own and refreshes when it becomes visible.
  // After an answer other than 200, for example while kgd restarts, a browser does not connect again by itself.
  class Listening extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.failures = 0;
      this.look = () => (document.hidden ? this.rest() : this.source || this.begin());
      document.addEventListener("visibilitychange", this.look);
      this.look();
    }
    begin() {
      const source = this.source = new EventSource(this.url);
      source.onopen = (event) => {
        this.failures = 0;
        this.onopen?.(event);
        if (this.rested) this.dispatchEvent(new MessageEvent("changed"));
        this.rested = false;
      };
      source.onerror = (event) => {
        if (source.readyState === EventSource.CLOSED && source === this.source) {
          this.rest();
          this.again = setTimeout(this.look, Math.min(1000 * 2 ** this.failures++, 10000));
        }
        this.onerror?.(event);
      };
      source.addEventListener("changed", (event) => {
        position = event.data;
        this.dispatchEvent(new MessageEvent("changed", { data: event.data }));
      });
    }
    rest() {
      this.source?.close();
      this.source = null;
      this.rested = true;
    }
    close() {
      document.removeEventListener("visibilitychange", this.look);
      clearTimeout(this.again);
      this.source?.close();
    }
  }
  htmx.createEventSource = (url) => new Listening(url);

  let broken = false;
  document.body.addEventListener("htmx:sseError", () => {
    broken = true;
    tell("kgd does not answer. This page reconnects by itself; “kgd ui” starts kgd again.");
  });
  document.body.addEventListener("htmx:sseOpen", () => {
    if (broken) {
      broken = false;
      tell("");
      htmx.trigger("#look-again", "sse:changed");
    }
  });

  // A refresh must not overwrite a form that is being filled in, nor may an answer that was already on its way.
  const spared = (event, asker) => {
    if (asker?.id !== "look-again" || !written()) return;
    event.preventDefault();
    tell("This page has newer content. Submit or reload to see it.");
  };
  document.body.addEventListener("htmx:beforeRequest", (event) => spared(event, event.target));
  document.body.addEventListener("htmx:beforeSwap", (event) => spared(event, event.detail.requestConfig?.elt));
  // Keep opened and closed details as they are.
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
  // A form may have changed the address since this page was loaded.
  document.body.addEventListener("htmx:configRequest", (event) => {
    if (event.target.id === "look-again" && location.pathname.startsWith("/ui/w/")) {
      event.detail.path = location.pathname + location.search;
    }
    if (event.target.id === "look-again" && position.length > 1) event.detail.headers["X-Kgd-At"] = position;
  });
  // An ended session answers with the sign-in page: load it as a whole page.
  document.body.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) location.reload();
  });
  document.body.addEventListener("htmx:afterSwap", () => document.dispatchEvent(new Event("kgd:shown")));

  // The palette's last nodes and searches are of one viewer: the sign-in page and another viewer's page forget them.
  const { viewer } = document.body.dataset;
  if (viewer === "") sessionStorage.clear();
  Object.keys(localStorage).filter((key) => key.startsWith("kgd-last ") && viewer !== undefined)
    .filter((key) => !viewer || !key.endsWith(` ${viewer}`)).forEach((key) => localStorage.removeItem(key));
})();
