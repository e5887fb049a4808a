// Everything works without this file; with it, a change in the form is shown at once.
"use strict";
(() => {
  let latest = 0;

  async function show(address, { push = true, focus = null } = {}) {
    const mine = ++latest;
    const result = document.getElementById("result");
    if (result) result.setAttribute("aria-busy", "true");
    try {
      const reply = await fetch(address, { headers: { accept: "text/html" } });
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      if (mine !== latest) return;
      const main = page.getElementById("main");
      if (!main || !main.querySelector("#result")) { location.assign(reply.url); return; }
      const open = openFilters();
      document.getElementById("main").replaceChildren(...main.childNodes);
      document.title = page.title;
      if (push) history.pushState(null, "", reply.url);
      prepare(open);
      const target = focus && document.querySelector(focus);
      if (target) target.focus({ preventScroll: true });
    } catch {
      if (mine === latest) location.assign(address);
    }
  }

  function openFilters() {
    return [...document.querySelectorAll(".variable")].map((v) => v.querySelector("details")?.open ?? false);
  }

  function addressOf(form, button) {
    const fields = new URLSearchParams(new FormData(form));
    if (button && button.name) fields.append(button.name, button.value);
    return form.getAttribute("action") + "?" + fields;
  }

  function selector(field) {
    if (!field || !field.name) return null;
    const value = field.type === "radio" || field.type === "checkbox" ? `[value="${CSS.escape(field.value)}"]` : "";
    return `#builder [name="${CSS.escape(field.name)}"]${value}`;
  }

  function prepare(open = []) {
    document.querySelectorAll(".variable").forEach((v, i) => {
      const filter = v.querySelector("details");
      if (filter && open[i]) filter.open = true;
    });
    for (const box of document.querySelectorAll(".copy")) {
      const field = box.querySelector("input, textarea");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy: " + box.querySelector("label").textContent);
      button.addEventListener("click", async () => {
        field.select();
        try { await navigator.clipboard.writeText(field.value); } catch { document.execCommand("copy"); }
        button.textContent = "Copied";
      });
      box.append(button);
    }
    const find = document.querySelector(".picker #find");
    if (find) {
      const lines = [...document.querySelectorAll(".tree > li")];
      find.addEventListener("input", () => {
        const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
        let groups = [];
        for (const line of lines) {
          const depth = Number(/depth-(\d)/.exec(line.className)[1]);
          groups = groups.slice(0, depth);
          const text = [...groups, line].map((l) => l.textContent).join(" ").toLowerCase();
          const found = words.every((word) => text.includes(word));
          line.hidden = !found;
          if (found) for (const group of groups) group.hidden = false;
          if (line.classList.contains("group")) groups.push(line);
        }
      });
    }
  }

  document.addEventListener("change", (event) => {
    const form = event.target.closest("#builder");
    if (!form || event.target.closest(".damage")) return;
    show(addressOf(form), { focus: selector(event.target) });
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("#builder");
    if (!form || (event.submitter && event.submitter.name === "choose")) return;
    event.preventDefault();
    show(addressOf(form, event.submitter), { focus: "#builder .go" });
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".pager a, .tabs a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const tab = link.closest(".tabs") ? ".tabs a[aria-current]" : "#result .scroll";
    show(link.href, { focus: tab });
  });
  addEventListener("popstate", () => show(location.href, { push: false }));
  prepare();
})();
