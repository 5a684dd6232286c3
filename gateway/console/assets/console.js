// What a page does by itself: it asks anew when its topic has news, and its countdowns go on. Without it every page still reads and acts.
(() => {
  const main = document.getElementById("main");
  if (main && main.dataset.live) {
    const news = new EventSource(main.dataset.live);
    news.onmessage = () => {
      const at = document.activeElement;
      const writes = at && main.contains(at) && at.matches("input, textarea, select");
      if (!writes && !main.querySelector("details[open]")) htmx.trigger(main, "live");
    };
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
