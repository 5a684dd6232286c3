// What the inbox does by itself: it counts the segments of an answer, takes saved replies into it, and follows single keys, which can be
// switched off. Without it every form still works.
(() => {
  // Characters of GSM 7 bit; those of the second set take two places. With any other character a text is sent as UCS-2.
  const basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà";
  const twice = "\f^{}\\[~]|€";
  const segments = (text) => {
    const letters = [...text];
    if (!letters.length) return 0;
    const plain = letters.every((c) => basic.includes(c) || twice.includes(c));
    const size = plain ? letters.reduce((n, c) => n + (twice.includes(c) ? 2 : 1), 0) : text.length;
    const [one, many] = plain ? [160, 153] : [70, 67];
    return size <= one ? 1 : Math.ceil(size / many);
  };
  const count = (field) => {
    document.querySelector(field.dataset.segments).textContent =
      field.value ? field.dataset.words.replace("{n}", segments(field.value)).replace("{c}", [...field.value].length) : "";
  };
  // What is being written stays in this tab, by its reader and conversation, until it is stored: a key, a link or the end of a session may
  // leave the page.
  const keep = (field) => field.value ? sessionStorage.setItem(field.dataset.draft, field.value) : sessionStorage.removeItem(field.dataset.draft);
  document.querySelectorAll("[data-stored]").forEach((notice) => sessionStorage.removeItem(notice.dataset.stored));
  document.addEventListener("input", (e) => {
    if (!e.target.matches("[data-segments]")) return;
    count(e.target);
    keep(e.target);
  });
  document.querySelectorAll("[data-segments]").forEach((field) => {
    if (!field.value) field.value = sessionStorage.getItem(field.dataset.draft) ?? "";
    count(field);
  });
  document.addEventListener("click", (e) => {
    const reply = e.target.closest?.("[data-insert]");
    if (!reply) return;
    e.preventDefault();
    const field = document.getElementById("answer");
    field.setRangeText(reply.dataset.insert, field.selectionStart, field.selectionEnd, "end");
    reply.closest("details").open = false;
    field.focus();
    count(field);
    keep(field);
  });
  const on = () => localStorage.getItem("paceline-keys") !== "off";
  const told = () => document.querySelectorAll("[data-keys]").forEach((b) => b.setAttribute("aria-pressed", on()));
  document.addEventListener("click", (e) => {
    if (!e.target.closest?.("[data-keys]")) return;
    localStorage.setItem("paceline-keys", on() ? "off" : "on");
    told();
  });
  told();
  document.addEventListener("htmx:finally:request", told);
  addEventListener("keydown", (e) => {
    if (!on() || e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, textarea, select")) {
      if (e.key === "Escape" && e.target.id === "answer") e.target.blur();
      return;
    }
    if (e.key === "j" || e.key === "k") {
      const all = [...document.querySelectorAll(".tickets ol a")];
      const at = all.findIndex((a) => a.hasAttribute("aria-current"));
      all[at < 0 ? 0 : at + (e.key === "j" ? 1 : -1)]?.click();
      return;
    }
    const found = document.querySelector(`[data-key="${CSS.escape(e.key)}"]`);
    if (!found) return;
    e.preventDefault();
    found.focus();
    if (!found.matches("textarea")) found.click();
  });
})();
