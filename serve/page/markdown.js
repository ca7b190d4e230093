"use strict";
// Markdown as models write it, as elements of the page. Text never becomes markup: each element is made here.

// element makes an element with children, which are elements or text.
function element(name, ...children) {
  const e = document.createElement(name);
  e.append(...children);
  return e;
}

// inlineForms has the forms within a line, in the order in which they are tried: a pattern, and what it becomes.
const inlineForms = [
  [/`+([^`]+)`+/, m => element("code", m[1].trim())],
  [/\*\*(.+?)\*\*/, m => element("strong", ...inline(m[1]))],
  [/__(.+?)__/, m => element("strong", ...inline(m[1]))],
  [/~~(.+?)~~/, m => element("del", ...inline(m[1]))],
  [/(?<![\w*])\*([^\s*](?:[^*]*[^\s*])?)\*(?!\w)/, m => element("em", ...inline(m[1]))],
  [/(?<!\w)_([^\s_](?:[^_]*[^\s_])?)_(?!\w)/, m => element("em", ...inline(m[1]))],
  [/\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/, m => link(m[2], ...inline(m[1]))],
  [/https?:\/\/[^\s<>()]+[^\s<>().,;:!?]/, m => link(m[0], m[0])],
];

function link(address, ...children) {
  const a = element("a", ...children);
  a.href = address;
  a.rel = "noopener noreferrer";
  a.target = "_blank";
  return a;
}

// inline returns the elements of a text within a line.
function inline(text, depth = 0) {
  const list = [];
  while (text && depth < 200) {
    let best = null, form = null;
    for (const [pattern, make] of inlineForms) {
      const m = pattern.exec(text);
      if (m && (!best || m.index < best.index)) [best, form] = [m, make];
    }
    if (!best) break;
    if (best.index) list.push(text.slice(0, best.index));
    list.push(form(best));
    text = text.slice(best.index + best[0].length);
    depth++;
  }
  if (text) list.push(text);
  return list;
}

// codeBlock is a block of code with a button that copies it.
function codeBlock(language, text) {
  const copy = element("button", "Copy code");
  copy.type = "button";
  copy.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => {
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy code"; }, 2000);
  }, () => { copy.textContent = "Not copied"; }));
  const pre = element("pre", element("code", text));
  pre.tabIndex = 0; // it may scroll
  pre.setAttribute("aria-label", language ? `Code, ${language}` : "Code");
  pre.setAttribute("role", "region");
  const block = element("div", element("div", element("span", language), copy), pre);
  block.className = "code";
  return block;
}

const bullet = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const isRow = line => /^\s*\|.*\|\s*$/.test(line);
const cells = line => line.trim().replace(/^\||\|$/g, "").split("|").map(c => c.trim());

// markdown returns the elements of a text.
function markdown(text) {
  const lines = text.split("\n"), out = [];
  let i = 0, m, level = 1; // of the latest heading: the page's is 1, and none may be left out
  // list reads the items of a list that are indented as far as the first, with the lists in them.
  const list = indent => {
    const ordered = bullet.exec(lines[i])[2] !== undefined, l = element(ordered ? "ol" : "ul");
    if (ordered) l.start = Number(bullet.exec(lines[i])[2]);
    while (i < lines.length && (m = bullet.exec(lines[i])) && m[1].length >= indent) {
      if (m[1].length > indent + 1 && l.lastChild) {
        l.lastChild.append(list(m[1].length));
        continue;
      }
      if ((m[2] !== undefined) !== ordered) break;
      let item = m[3];
      for (i++; i < lines.length && /^\s+\S/.test(lines[i]) && !bullet.test(lines[i]); i++) item += "\n" + lines[i].trim();
      l.append(element("li", ...inline(item)));
    }
    return l;
  };
  while (i < lines.length) {
    const line = lines[i];
    if ((m = /^\s*(```+|~~~+)\s*([\w+#.-]*)/.exec(line))) {
      const body = [];
      for (i++; i < lines.length && !lines[i].trim().startsWith(m[1]); i++) body.push(lines[i]);
      i++;
      out.push(codeBlock(m[2], body.join("\n")));
    } else if (!line.trim()) {
      i++;
    } else if ((m = /^(#{1,6})\s+(.*?)#*$/.exec(line))) {
      level = Math.min(m[1].length + 1, level + 1, 6);
      out.push(element("h" + level, ...inline(m[2])));
      i++;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      out.push(element("hr"));
      i++;
    } else if (line.startsWith(">")) {
      const body = [];
      for (; i < lines.length && lines[i].startsWith(">"); i++) body.push(lines[i].replace(/^>\s?/, ""));
      out.push(element("blockquote", ...markdown(body.join("\n"))));
    } else if (bullet.test(line)) {
      out.push(list(bullet.exec(line)[1].length));
    } else if (isRow(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[i + 1] ?? "")) {
      const head = element("tr", ...cells(line).map(c => element("th", ...inline(c)))), rows = [];
      for (i += 2; i < lines.length && isRow(lines[i]); i++)
        rows.push(element("tr", ...cells(lines[i]).map(c => element("td", ...inline(c)))));
      out.push(element("table", element("thead", head), element("tbody", ...rows)));
    } else {
      const body = [];
      for (; i < lines.length && lines[i].trim() && !/^\s*(```|~~~|#{1,6}\s|>)/.test(lines[i]) &&
        !(body.length && bullet.test(lines[i])); i++) body.push(lines[i]);
      out.push(element("p", ...inline(body.join("\n"))));
    }
  }
  return out;
}
