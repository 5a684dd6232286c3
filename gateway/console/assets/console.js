// What a page does by itself: it asks anew when its topic has news, says when it could not, and its countdowns go on. Without it every page
// still reads and acts.
(() => {
  const page = document.querySelector("[data-live]");
  const stale = document.getElementById("stale");
  let old = false; // there may be news that the page does not show
  let asking = false; // one request at a time; news that comes meanwhile is asked for afterwards
  let fresh = Date.now(); // what is shown was true then
  let again = 0, wait = 0; // after a failure: the timer, and how long it waits
  // Not under the hands of a person: what is open or being written stays until it is done with.
  const busy = () => {
    const at = document.activeElement;
    const kept = "[hx-morph-skip]"; // which a page that renews itself leaves as it is
    return [...page.querySelectorAll("details[open]")].some((d) => !d.closest(kept)) ||
      at && page.contains(at) && at.matches("input, textarea, select") && !at.closest(kept);
  };
  const renew = () => {
    if (old && !asking && !busy()) {
      old = false;
      asking = true;
      htmx.trigger(page, "live");
    }
  };
  const lost = () => {
    const time = new Date(fresh).toLocaleTimeString(document.documentElement.lang, {timeZone: stale.dataset.zone});
    const words = stale.dataset.words.replace("{time}", time);
    if (stale.textContent !== words) stale.textContent = words; // a screen reader says it once
    if (page) {
      old = true;
      wait = Math.min(30000, 2 * wait || 1000);
      clearTimeout(again);
      again = setTimeout(renew, wait);
    }
  };
  // An answer that is no page, such as an error, does not take the place of what is shown. One that leads to signing in is followed.
  document.addEventListener("htmx:before:response", (e) => {
    const {response, hx} = e.detail.ctx;
    if (response.status !== 200 && !hx.redirect) e.preventDefault();
  });
  document.addEventListener("htmx:before:swap", (e) => { // a person may have begun since it was asked for
    if (e.detail.ctx.sourceElement === page && busy()) {
      old = true;
      e.preventDefault();
    }
  });
  document.addEventListener("htmx:finally:request", (e) => {
    const {sourceElement, status} = e.detail.ctx;
    const ours = sourceElement === page;
    if (ours) asking = false;
    if (status !== "swapped") return lost();
    if (ours && busy()) return;
    fresh = Date.now();
    wait = 0;
    clearTimeout(again);
    stale.textContent = "";
    if (ours) renew();
  });
  if (page) {
    let news;
    const listen = () => {
      news = new EventSource(page.dataset.live);
      news.onmessage = () => { old = true; renew(); };
      news.onerror = () => { // the browser connects again, unless the answer was an error
        old = true;
        busy() ? lost() : renew();
        if (news.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
      };
    };
    listen();
    page.addEventListener("toggle", renew, true);
    page.addEventListener("focusout", () => setTimeout(renew));
    addEventListener("pagehide", () => news.close());
    addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
  }
  document.addEventListener("submit", (e) => { // a second press while the first is on its way does nothing
    const form = e.target, again = 3000;
    if (form.method !== "post" || e.defaultPrevented) return;
    if (Date.now() - (form.dataset.sent ?? 0) < again) return e.preventDefault();
    form.dataset.sent = Date.now();
  });
  // The texts of a flow: what is typed stays in this tab until it is saved, and leaving the page before that is asked about.
  const texts = document.querySelector("form[data-unsaved]");
  if (texts) {
    const fields = [...texts.querySelectorAll("textarea[data-draft]")];
    const lines = (text) => text.replaceAll("\r\n", "\n").trim();
    const was = (field) => lines(texts.elements[field.name.replace("text.", "was.")].value);
    const typed = (field) => lines(field.value) !== was(field);
    for (const field of fields) {
      const kept = JSON.parse(sessionStorage.getItem(field.dataset.draft) ?? "null");
      if (typed(field)) continue; // which was refused, and stands in the form
      sessionStorage.removeItem(field.dataset.draft);
      if (!kept || kept.was !== was(field) || kept.text === kept.was) continue; // it is saved, or a colleague has changed the text
      field.value = kept.text;
      sessionStorage.setItem(field.dataset.draft, JSON.stringify(kept));
      document.getElementById("restored").hidden = false;
    }
    texts.addEventListener("input", ({target}) => {
      if (!target.dataset.draft) return;
      if (typed(target)) sessionStorage.setItem(target.dataset.draft, JSON.stringify({was: was(target), text: lines(target.value)}));
      else sessionStorage.removeItem(target.dataset.draft);
    });
    let leaves = false;
    document.addEventListener("submit", (e) => {
      if (e.target !== texts && !e.target.matches(".leaves")) return;
      leaves = true;
      if (e.target !== texts) fields.forEach((field) => sessionStorage.removeItem(field.dataset.draft)); // the draft is dropped
    });
    addEventListener("beforeunload", (e) => { if (!leaves && fields.some(typed)) e.preventDefault(); });
    addEventListener("pageshow", () => { leaves = false; });
  }
  document.addEventListener("submit", (e) => e.target.matches(".leave") && sessionStorage.clear()); // what was being written
  addEventListener("keydown", (e) => { // a tooltip must not stay in the way
    if (e.key === "Escape" && document.activeElement.matches(".tip-of")) document.activeElement.blur();
  });
  const root = document.documentElement;
  const spans = JSON.parse(root.dataset.spans);
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const say = (unit, n) => spans[unit][n === 1 ? 0 : 1].replace("#", n);
  const words = (s) => { // as Span of times.go
    const at = units.findIndex(([, size]) => s >= size);
    if (at < 0) return say("second", 0);
    const n = Math.floor(s / units[at][1]), rest = at < 3 && !(at === 0 && n >= 10) ? Math.floor(s % units[at][1] / units[at + 1][1]) : 0;
    return say(units[at][0], n) + (rest ? " " + say(units[at + 1][0], rest) : "");
  };
  const rough = (s) => { const [unit, size] = units.find(([, size]) => s >= size); return say(unit, Math.floor(s / size)); };
  setInterval(() => {
    for (const time of document.querySelectorAll("time.due, time.ago")) {
      const left = Math.round((new Date(time.dateTime) - Date.now()) / 1000), far = Math.abs(left);
      const shown = time.matches(".due") ? words(Math.max(0, left))
        : far < 60 ? spans.now : far >= 604800 ? time.textContent : (left < 0 ? spans.ago : spans.in).replace("{}", rough(far));
      if (time.textContent !== shown) time.textContent = shown;
    }
  }, 1000);
  if (root.dataset.zoneCookie) { // once: the times of the pages after this one are in the zone of this browser
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const host = root.dataset.zoneCookie.startsWith("__Host-");
    document.cookie = `${root.dataset.zoneCookie}=${zone}; path=${host ? "/" : "/console"}; max-age=31536000; samesite=lax${host ? "; secure" : ""}`;
  }
  document.addEventListener("click", async (e) => {
    const button = e.target.closest?.("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.dataset.copy);
    const name = button.getAttribute("aria-label");
    button.classList.add("done");
    button.setAttribute("aria-label", button.dataset.done);
    setTimeout(() => { button.classList.remove("done"); button.setAttribute("aria-label", name); }, 1500);
  });
})();
