// Everything works without this file; with it, a change in the form is shown at once.
"use strict";
(() => {
  let latest = 0;
  let typed = 0;
  const asked = () => location.pathname + location.search;
  let shownAt = asked();
  const words = JSON.parse(document.body.dataset.words || "{}");
  const say = (text) => words[text] || text;

  async function show(address, { push = true, focus = null, up = false, body = null, leave = (to) => location.assign(to) } = {}) {
    const mine = ++latest;
    const result = document.getElementById("result");
    if (result) result.setAttribute("aria-busy", "true");
    try {
      const reply = await fetch(address, { headers: { accept: "text/html" }, method: body ? "POST" : "GET", body });
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      if (mine !== latest) return;
      const main = page.getElementById("main");
      if (!main || !main.querySelector("#result")) { leave(reply.url); return; }
      const open = unfolded();
      document.getElementById("main").replaceChildren(...main.childNodes);
      document.title = page.title;
      document.querySelector(".top nav").replaceWith(page.querySelector(".top nav")); // it leads to the same page
      if (push && (!body || reply.redirected)) history.pushState(null, "", reply.url);
      shownAt = asked();
      prepare(open);
      const status = document.getElementById("status"), shown = document.getElementById("result");
      status.firstElementChild.textContent = shown.dataset.said || ""; // short, and it stays: the table itself would be read whole
      status.lastElementChild.hidden = false;
      const target = (focus && document.querySelector(focus)) || (up && shown);
      for (let part = target; (part = part && part.parentElement.closest("details")); ) part.open = true;
      if (!markSlip() && target) target.focus({ preventScroll: true });
      if (up) target.scrollIntoView();
    } catch {
      if (mine === latest) leave(address);
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

  function unfolded() {
    return [...document.querySelectorAll("#builder details[open]")].map((part) => part.dataset.fold);
  }

  function fieldsOf(form, button) {
    const fields = new URLSearchParams(new FormData(form));
    if (button && button.name) fields.append(button.name, button.value);
    return fields;
  }

  // What an address may have no room for is posted, and sent without this file where that fails.
  function send(form, button, focus) {
    const fields = fieldsOf(form, button), action = form.getAttribute("action");
    if (form.getAttribute("method") === "get") { show(action + "?" + fields, { focus }); return; }
    show(action, { focus, body: fields, leave: () => { form.dataset.plain = "yes"; form.requestSubmit(button); } });
  }

  function selector(field) {
    if (!field || !field.name) return null;
    const value = field.type === "radio" || field.type === "checkbox" ? `[value="${CSS.escape(field.value)}"]` : "";
    return `#builder [name="${CSS.escape(field.name)}"]${value}`;
  }

  function prepare(open = []) {
    for (const part of document.querySelectorAll("#builder details")) if (open.includes(part.dataset.fold)) part.open = true;
    for (const box of document.querySelectorAll(".copy")) {
      const field = box.querySelector("input, textarea");
      const button = quiet("Copy");
      button.setAttribute("aria-label", say("Copy") + ": " + box.querySelector("label").textContent);
      button.addEventListener("click", async () => {
        field.select();
        try { await navigator.clipboard.writeText(field.value); } catch { document.execCommand("copy"); }
        button.textContent = say("Copied");
      });
      box.append(button);
    }
    const file = document.querySelector('.links a[href*=".csv?"]');
    if (file) {
      const button = quiet("Copy for a spreadsheet");
      button.addEventListener("click", async () => {
        try {
          const reply = await fetch(file.href);
          if (!reply.ok) throw reply;
          const rows = fields(await reply.text());
          const kinds = { "text/plain": tabbed(rows), "text/html": marked(rows) };
          const parts = Object.entries(kinds).map(([kind, text]) => [kind, new Blob([text], { type: kind })]);
          await navigator.clipboard.write([new ClipboardItem(Object.fromEntries(parts))]);
          button.textContent = say("Copied");
        } catch { location.assign(file.href); } // no clipboard: the file itself
      });
      file.parentElement.append(button);
    }
    for (const link of document.querySelectorAll('.links a[href*=".svg?"]')) {
      const button = quiet("Picture (PNG)");
      button.addEventListener("click", () => savePicture(link.href).catch(() => location.assign(link.href))); // cannot be drawn: the file itself
      link.after(" ", button);
    }
    for (const link of document.querySelectorAll("[data-area]")) {
      const area = document.querySelector(`.map a[data-code="${CSS.escape(link.dataset.area)}"]`);
      if (!area) continue;
      const row = link.closest("tr");
      const mark = (on) => () => area.classList.toggle("marked", on);
      for (const name of ["focusin", "mouseenter"]) row.addEventListener(name, mark(true));
      for (const name of ["focusout", "mouseleave"]) row.addEventListener(name, mark(false));
    }
    const map = document.querySelector("svg.map");
    if (map) addMap(map);
    const told = document.querySelector(".told"), heat = document.querySelector(".heat");
    if (heat) heat.classList.add("pointed");
    for (const said of document.querySelectorAll(".pointing")) said.hidden = false;
    for (const field of document.querySelectorAll(".heat td[title]")) field.addEventListener("click", () => { told.textContent = field.title; });
    const form = document.getElementById("builder");
    if (form && form.querySelector(".variable")) addBoard(form);
    const find = document.querySelector(".picker #find");
    if (find) find.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(() => search(find.form), 200); });
  }

  function quiet(word) {
    const button = element("button", "quiet", say(word));
    button.type = "button";
    return button;
  }

  // The file of a picture, drawn at twice its size.
  async function savePicture(address) {
    const reply = await fetch(address), picture = new Image(), link = element("a");
    if (!reply.ok) throw reply;
    picture.src = address;
    await picture.decode();
    const canvas = element("canvas"), by = Math.min(2, 16000 / Math.max(picture.width, picture.height)); // no browser draws more
    canvas.width = picture.width * by;
    canvas.height = picture.height * by;
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    const drawn = await new Promise((done) => canvas.toBlob(done, "image/png"));
    if (!drawn) throw drawn;
    link.href = URL.createObjectURL(drawn);
    link.download = (/filename="([^"]+)\.svg"/.exec(reply.headers.get("content-disposition")) || ["", "picture"])[1] + ".png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  // A file of commas as rows of fields.
  function fields(text) {
    const one = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|\r|$)/gy, rows = [[]];
    for (let found; (found = one.exec(text)) && (found[0] || one.lastIndex < text.length);) {
      rows.at(-1).push(found[1].startsWith('"') ? found[1].slice(1, -1).replaceAll('""', '"') : found[1]);
      if (found[2] !== ",") rows.push([]);
    }
    return rows.filter((row) => row.length);
  }

  // Rows as spreadsheets take them when they are pasted: as text, and with codes that keep their zeros.
  function tabbed(rows) {
    const cell = (text) => (/["\t\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
    return rows.map((row) => row.map(cell).join("\t") + "\n").join("");
  }

  function marked(rows) {
    const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    const style = (text) => (/^0\d|^\d+[-/]\d|^\d+(\.\d+)?e\d+$/i.test(text) ? ' style="mso-number-format:\'\\@\'"' : "");
    const cells = (row) => row.map((text) => `<td${style(text)}>${escaped(text)}</td>`).join("");
    return `<table>${rows.map((row) => `<tr>${cells(row)}</tr>`).join("")}</table>`;
  }

  // Zoom, and areas that are selected by a click or by a frame around them: what is picked is ticked in the form below.
  function addMap(map) {
    const tools = document.querySelector(".map-tools"), form = document.querySelector("form.areas"), told = document.querySelector(".told");
    const whole = map.getAttribute("viewBox").split(" ").map(Number), select = tools.querySelector("[data-select]");
    let [x, y, wide, tall] = whole, start = null, frame = null, touched = null;
    tools.hidden = false;
    const drawn = (kind) => ["halo", "edge"].map((name) => { // two strokes, of which one is seen on any shade
      const part = document.createElementNS(map.namespaceURI, kind);
      part.setAttribute("class", name);
      map.append(part);
      return part;
    });
    const outlines = drawn("path");
    function outline() {
      const paths = [...map.querySelectorAll("a.picked path")].map((path) => path.getAttribute("d"));
      for (const part of outlines) part.setAttribute("d", paths.join(""));
    }
    function show() {
      if (wide > 0.99 * whole[2]) [x, y, wide, tall] = whole;
      x = Math.min(Math.max(x, whole[0]), whole[0] + whole[2] - wide);
      y = Math.min(Math.max(y, whole[1]), whole[1] + whole[3] - tall);
      map.setAttribute("viewBox", [x, y, wide, tall].join(" "));
      map.classList.toggle("zoomed", wide < whole[2]); // only then it is moved, and not the page
    }
    const selecting = () => select.getAttribute("aria-pressed") === "true";
    const boxes = () => [...form.querySelectorAll('[name^="where."]')];
    const fieldOf = (area) => boxes().find((box) => box.type === "checkbox" && box.value === area.dataset.keep);
    function pick(area, on) {
      if (!area.dataset.keep) return;
      area.classList.toggle("picked", on);
      const box = fieldOf(area);
      if (box) { if (!on || box.type === "checkbox") box.checked = on; return; }
      if (!on) return;
      const name = boxes()[0] && boxes()[0].name; // an area of another page of the table
      if (!name) return;
      const field = element("input");
      Object.assign(field, { type: "checkbox", name, value: area.dataset.keep, checked: true, hidden: true });
      form.append(field);
    }
    function say_picked() {
      outline();
      const picked = [...map.querySelectorAll("a.picked title")].map((title) => title.textContent);
      told.textContent = `${say("Selected")}: ${picked.length}. ${picked.slice(-3).join("; ")}`;
    }
    for (const button of tools.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => {
      const by = Number(button.dataset.zoom);
      if (!by) [x, y, wide, tall] = whole;
      else { x += wide * (1 - 1 / by) / 2; y += tall * (1 - 1 / by) / 2; wide /= by; tall /= by; }
      show();
    });
    select.addEventListener("click", () => {
      select.setAttribute("aria-pressed", String(!selecting()));
      map.classList.toggle("selecting", selecting());
    });
    const at = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
    map.addEventListener("pointerdown", (event) => {
      if (event.isPrimary) start = { point: at(event), x, y, moved: false };
      else { forget(); start = null; } // two fingers are the browser's
    });
    addEventListener("pointermove", (event) => {
      if (!start || !event.isPrimary || !map.isConnected) return;
      const now = at(event), far = Math.hypot(now.x - start.point.x, now.y - start.point.y);
      if (far < wide / 100) return;
      start.moved = true;
      if (selecting()) {
        frame = frame || drawn("rect");
        const sides = { x: Math.min(now.x, start.point.x), y: Math.min(now.y, start.point.y), width: Math.abs(now.x - start.point.x), height: Math.abs(now.y - start.point.y) };
        for (const part of frame) for (const [name, value] of Object.entries(sides)) part.setAttribute(name, value);
      } else if (wide < whole[2]) { x += start.point.x - now.x; y += start.point.y - now.y; show(); }
    });
    function forget() {
      for (const part of frame || []) part.remove();
      frame = null;
    }
    addEventListener("pointercancel", () => { forget(); start = null; }); // the browser took the gesture
    addEventListener("pointerup", () => {
      if (frame) {
        const box = frame[0].getBBox();
        for (const area of map.querySelectorAll("a[data-code]")) {
          const own = area.getBBox(), mid = [own.x + own.width / 2, own.y + own.height / 2];
          if (mid[0] >= box.x && mid[0] <= box.x + box.width && mid[1] >= box.y && mid[1] <= box.y + box.height) pick(area, true);
        }
        forget();
        say_picked();
      }
      setTimeout(() => { start = null; }); // after the click, which does not come where the frame was
    });
    map.addEventListener("dragstart", (event) => event.preventDefault());
    map.addEventListener("click", (event) => {
      const area = event.target.closest("a[data-code]"), moved = start && start.moved;
      start = null;
      if (!area) return;
      if (selecting() || moved) {
        event.preventDefault();
        if (!moved) { pick(area, !area.classList.contains("picked")); say_picked(); }
      } else if (event.pointerType === "touch" && touched !== area) { // the first tap says what is there, the second leads to it
        event.preventDefault();
        touched = area;
        told.textContent = area.querySelector("title").textContent;
      }
    });
    form.addEventListener("change", (event) => {
      for (const area of map.querySelectorAll("a[data-code]")) if (area.dataset.keep === event.target.value) area.classList.toggle("picked", event.target.checked);
      outline();
    });
  }

  // The server looks for words among all codes, however many; ticks stay, because they are sent along.
  async function search(form) {
    const mine = ++latest, said = document.getElementById("found");
    try {
      const reply = await fetch(form.getAttribute("action"), { method: "POST", body: fieldsOf(form, form.querySelector('[name="again"]')) });
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      if (mine !== latest) return;
      const found = page.querySelector(".listing");
      if (found) {
        form.querySelector(".listing").replaceWith(found);
        history.replaceState(null, "", reply.url);
        shownAt = asked();
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
        send(form);
      });
    }
    form.querySelector(".variables > legend").after(board);
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
    send(form, null, selector(event.target));
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("#builder");
    if (!form || form.dataset.plain || (event.submitter && event.submitter.name === "choose")) return;
    event.preventDefault();
    const moved = event.submitter && event.submitter.name === "earlier" && CSS.escape(event.submitter.value);
    send(form, event.submitter, moved
      ? `#builder [name="earlier"][value="${moved}"], #builder .variable:not(:has([name="earlier"])) [name="at.${moved}"]:checked`
      : "#builder .go");
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".pager a, .tabs a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    show(link.href, link.closest(".tabs") ? { focus: ".tabs a[aria-current]" } : { focus: "#result .scroll", up: true });
  });
  addEventListener("popstate", () => { if (asked() !== shownAt) show(location.href, { push: false }); }); // not for a part of the page
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
