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
    const form = event.target.closest("#main form[method=post]");
    if (form) form.dataset.written = "yes";
  });

  // Who writes a version of their own, or puts one together, has chosen that.
  document.addEventListener("input", (event) => {
    const chosen = event.target.closest("[data-chooses]");
    const choice = chosen && document.getElementById(chosen.dataset.chooses);
    if (choice) choice.checked = true;
  });

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

  // What somebody is writing is not written over by what others did meanwhile.
  document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.id === "look-again" && written()) {
      event.preventDefault();
      tell("Something changed meanwhile. Send or reload to see it.");
    }
  });
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
