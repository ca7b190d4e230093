"use strict";

// The search looks for all words of the query, and prefers pages with them in the title.
const results = document.getElementById("results"), index = document.getElementById("index").href, query = document.getElementById("query");
query.value = new URLSearchParams(location.search).get("q") || "";

fetch(index).then(r => r.json()).then(pages => {
  function search() {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    results.replaceChildren();
    if (!words.length) return;
    const found = [];
    for (const p of pages) {
      const title = p.title.toLowerCase(), text = p.text.toLowerCase();
      if (!words.every(w => title.includes(w) || text.includes(w))) continue;
      const score = words.reduce((s, w) => s + (title.includes(w) ? 20 : 0) + Math.min(10, text.split(w).length - 1), 0);
      found.push([score, p, text]);
    }
    found.sort((a, b) => b[0] - a[0]);
    for (const [, p, text] of found.slice(0, 40)) {
      const link = document.createElement("a"), par = document.createElement("p");
      link.href = p.url.replace(/^\//, index.replace(/index\.json$/, ""));
      link.textContent = p.title;
      const at = Math.max(0, text.indexOf(words[0]) - 60), part = p.text.slice(at, at + 220), i = part.toLowerCase().indexOf(words[0]);
      par.append(link, document.createElement("br"));
      if (i < 0) par.append(part);
      else {
        const mark = document.createElement("mark");
        mark.textContent = part.slice(i, i + words[0].length);
        par.append(part.slice(0, i), mark, part.slice(i + words[0].length), " …");
      }
      results.append(par);
    }
    if (!found.length) results.textContent = "No page has all these words.";
  }
  query.addEventListener("input", search);
  search();
});
