// Everything works without this file; with it, a change in the form is shown at once.
"use strict";
(() => {
  let latest = 0;
  let typed = 0;
  const words = JSON.parse(document.body.dataset.words || "{}");
  const say = (text) => words[text] || text;

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
      document.querySelector(".top nav").replaceWith(page.querySelector(".top nav")); // it leads to the same page
      if (push) history.pushState(null, "", reply.url);
      prepare(open);
      const target = focus && document.querySelector(focus);
      if (!markSlip() && target) target.focus({ preventScroll: true });
    } catch {
      if (mine === latest) location.assign(address);
    }
  }

  // The line of a form that could not be read is selected, so that it can be typed over.
  function markSlip() {
    const field = document.querySelector("#builder [aria-invalid]");
    if (!field) return false;
    field.focus();
    const lines = field.value.split("\n"), line = Number(field.dataset.line || 1) - 1;
    const start = lines.slice(0, line).join("\n").length + (line > 0 ? 1 : 0);
    field.setSelectionRange(start, start + (lines[line] || "").length);
    return true;
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
      button.textContent = say("Copy");
      button.setAttribute("aria-label", say("Copy") + ": " + box.querySelector("label").textContent);
      button.addEventListener("click", async () => {
        field.select();
        try { await navigator.clipboard.writeText(field.value); } catch { document.execCommand("copy"); }
        button.textContent = say("Copied");
      });
      box.append(button);
    }
    for (const link of document.querySelectorAll("[data-area]")) {
      const area = document.querySelector(`.map a[data-code="${CSS.escape(link.dataset.area)}"]`);
      if (!area) continue;
      const row = link.closest("tr");
      const mark = (on) => () => area.classList.toggle("marked", on);
      for (const name of ["focusin", "mouseenter"]) row.addEventListener(name, mark(true));
      for (const name of ["focusout", "mouseleave"]) row.addEventListener(name, mark(false));
    }
    const form = document.getElementById("builder");
    if (form) addBoard(form);
    const find = document.querySelector(".picker #find");
    if (find) find.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(() => search(find.form), 200); });
  }

  // The server looks for words among all codes, however many; ticks stay, because they are sent along.
  async function search(form) {
    const mine = ++latest, said = document.getElementById("found");
    try {
      const reply = await fetch(addressOf(form, form.querySelector('[name="again"]')));
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      if (mine !== latest) return;
      const found = page.querySelector(".listing");
      if (found) {
        form.querySelector(".listing").replaceWith(found);
        history.replaceState(null, "", reply.url);
      }
      said.textContent = page.querySelector("#found, .lead").textContent;
    } catch {
      if (mine === latest) said.textContent = say("The search got no answer; press Find.");
    }
  }

  // Variables as chips that are dragged between rows and columns; the buttons below do the same.
  function addBoard(form) {
    const segments = form.querySelector(".segments").querySelectorAll("label");
    const sides = [...segments].map((label) => [label.querySelector("input").value, label.textContent.trim()]);
    const order = [...form.querySelectorAll('input[name="order"]')].map((field) => field.value);
    const board = element("div", "board");
    board.setAttribute("aria-hidden", "true");
    const zones = sides.map(([value, word]) => {
      const zone = element("div", "zone");
      zone.dataset.side = value;
      zone.append(element("span", "zone-name", word));
      board.append(zone);
      return zone;
    });
    const chips = [...form.querySelectorAll(".variable")].map((variable) => {
      const radio = variable.querySelector(".segments input:checked");
      const chip = element("span", "chip", variable.querySelector("legend").textContent);
      chip.draggable = true;
      chip.dataset.name = radio.name.slice(3);
      chip.dataset.side = radio.value;
      return chip;
    });
    const place = (chip) => (order.indexOf(chip.dataset.name) + 1 || order.length + 1);
    chips.sort((a, b) => place(a) - place(b));
    for (const chip of chips) {
      zones[sides.findIndex(([value]) => value === chip.dataset.side)].append(chip);
      chip.addEventListener("dragstart", (event) => {
        event.dataTransfer.setData("text/plain", chip.dataset.name);
        event.dataTransfer.effectAllowed = "move";
        chip.classList.add("dragged");
      });
      chip.addEventListener("dragend", () => chip.classList.remove("dragged"));
    }
    for (const zone of zones) {
      zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
      zone.addEventListener("dragleave", () => zone.classList.remove("over"));
      zone.addEventListener("drop", (event) => {
        event.preventDefault();
        zone.classList.remove("over");
        const chip = chips.find((c) => c.dataset.name === event.dataTransfer.getData("text/plain"));
        if (!chip) return;
        const before = [...zone.querySelectorAll(".chip")].find((other) => {
          const box = other.getBoundingClientRect();
          return other !== chip && event.clientY < box.bottom && event.clientX < box.left + box.width / 2;
        });
        zone.insertBefore(chip, before || null);
        for (const field of form.querySelectorAll('input[name="order"]')) field.remove();
        for (const placed of board.querySelectorAll('.zone:not([data-side=""]) .chip')) {
          const field = element("input");
          Object.assign(field, { type: "hidden", name: "order", value: placed.dataset.name });
          form.append(field);
        }
        const wanted = `[name="at.${CSS.escape(chip.dataset.name)}"][value="${zone.dataset.side}"]`;
        form.querySelector(wanted).checked = true;
        show(addressOf(form));
      });
    }
    form.querySelector(".variable").before(board);
  }

  function element(kind, name = "", text = "") {
    const made = document.createElement(kind);
    if (name) made.className = name;
    if (text) made.textContent = text;
    return made;
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
  // Paper cannot be clicked: what is folded is printed open, in browsers whose style sheets cannot do it too.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details.notes:not([open])")];
    for (const notes of folded) notes.open = true;
  });
  addEventListener("afterprint", () => { for (const notes of folded) notes.open = false; });
  prepare();
  markSlip();
})();
