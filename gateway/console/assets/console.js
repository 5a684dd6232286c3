// What a page does by itself: it asks anew when its topic has news, and its countdowns go on. Without it every page still reads and acts.
(() => {
  const page = document.querySelector("[data-live]");
  if (page) {
    let old = false;
    // Not under the hands of a person: what is open or being written stays until it is done with.
    const renew = () => {
      const at = document.activeElement;
      const busy = page.querySelector("details[open]") || at && page.contains(at) && at.matches("input, textarea, select");
      if (old && !busy) {
        old = false;
        htmx.trigger(page, "live");
      }
    };
    const news = new EventSource(page.dataset.live);
    news.onmessage = () => { old = true; renew(); };
    page.addEventListener("toggle", renew, true);
    page.addEventListener("focusout", () => setTimeout(renew));
    addEventListener("pagehide", () => news.close());
  }
  const words = (s) => s >= 3600 ? Math.floor(s / 3600) + "h " + Math.floor(s % 3600 / 60) + "m"
    : s >= 60 ? Math.floor(s / 60) + "m " + s % 60 + "s" : s + "s";
  setInterval(() => {
    for (const time of document.querySelectorAll("time.due")) {
      const left = Math.max(0, Math.round((new Date(time.dateTime) - Date.now()) / 1000));
      if (left < 86400) time.textContent = words(left);
    }
  }, 1000);
})();
