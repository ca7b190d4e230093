"use strict";
// Conversations with the model that this server has. They are kept in this browser and nowhere else.
const $ = id => document.getElementById(id);
const kept = "vkc-conversations";
let all = load(), now = all[0], running = null;

// fresh is a conversation without messages.
function fresh() { return { system: "", temperature: 0.8, messages: [] }; }

// load reads what is kept. What another version or hand wrote is dropped.
function load() {
  try {
    const list = JSON.parse(localStorage.getItem(kept)).filter(c => Array.isArray(c.messages));
    if (list.length) return list;
  } catch { /* nothing is kept, or may be */ }
  return [fresh()];
}

function save() {
  try { localStorage.setItem(kept, JSON.stringify(all)); } catch { /* a browser that keeps nothing */ }
}

const headers = () => {
  const h = { "Content-Type": "application/json" };
  if ($("key").value) h.Authorization = "Bearer " + $("key").value;
  return h;
};

// show adds an article of plain text, which no text can break out of.
function show(kind, text) {
  const a = document.createElement("article");
  a.className = kind;
  a.textContent = text;
  $("log").append(a);
  a.scrollIntoView({ block: "end" });
  return a;
}

function button(name, click) {
  const b = document.createElement("button");
  b.type = "button";
  b.textContent = name;
  b.addEventListener("click", click);
  return b;
}

// draw shows the conversation, and the list of all.
function draw() {
  $("log").replaceChildren();
  now.messages.forEach((m, i) => {
    show(m.role, m.content);
    if (m.role === "assistant") tools(m, i === now.messages.length - 1);
  });
  $("system").value = now.system ?? "";
  $("temperature").value = now.temperature ?? 0.8;
  $("list").replaceChildren(...all.map((c, i) => {
    const o = document.createElement("option");
    o.value = i;
    o.textContent = (c.messages[0]?.content ?? "New conversation").slice(0, 40);
    o.selected = c === now;
    return o;
  }));
}

// tools adds what can be done with an answer.
function tools(message, last) {
  const row = document.createElement("nav");
  row.append(button("Copy", () => navigator.clipboard.writeText(message.content)));
  if (last) row.append(button("Regenerate", () => {
    if (running) return;
    now.messages.pop();
    draw();
    answer();
  }));
  if (message.rate) row.append(" " + message.rate);
  $("log").append(row);
}

async function describe() {
  const r = await fetch("v1/models", { headers: headers() });
  $("key-row").hidden = r.status !== 401 && !$("key").value;
  if (r.ok) document.title = $("model").textContent = (await r.json()).data[0].id;
}

// events yields the data of server-sent events.
async function* events(body) {
  let rest = "";
  const decoder = new TextDecoder();
  for (const reader = body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2))
      if (rest.startsWith("data: ")) yield rest.slice(6, end);
  }
}

// answer has the model answer the last message. What comes before it is stopped counts.
async function answer() {
  const talk = now, part = show("assistant", ""), controller = running = new AbortController();
  const system = talk.system ? [{ role: "system", content: talk.system }] : [];
  const messages = talk.messages.map(m => ({ role: m.role, content: m.content }));
  let text = "", tokens = 0, first = 0, failed = "";
  $("send").hidden = true;
  $("stop").hidden = false;
  try {
    const r = await fetch("v1/chat/completions", {
      method: "POST", headers: headers(), signal: controller.signal,
      body: JSON.stringify({
        messages: [...system, ...messages], stream: true, stream_options: { include_usage: true },
        temperature: Number(talk.temperature),
      }),
    });
    if (!r.ok) throw new Error((await r.json()).error.message);
    for await (const data of events(r.body)) {
      if (data === "[DONE]") break;
      const piece = JSON.parse(data);
      if (piece.error) throw new Error(piece.error.message);
      if (piece.usage) tokens = piece.usage.completion_tokens;
      first ||= performance.now();
      text += piece.choices[0]?.delta.content ?? "";
      part.textContent = text;
      part.scrollIntoView({ block: "end" });
    }
  } catch (e) {
    if (e.name !== "AbortError") failed = e.message;
  }
  const seconds = (performance.now() - first) / 1000;
  const rate = tokens > 1 && seconds > 0 ? `${tokens} tokens, ${((tokens - 1) / seconds).toFixed(1)} a second` : "";
  running = null;
  if (text) talk.messages.push({ role: "assistant", content: text, rate });
  else if (talk.messages.at(-1)?.role === "user") { // not answered, so that it can be sent again
    const unsent = talk.messages.pop();
    if (talk === now && !$("text").value) $("text").value = unsent.content;
  }
  save();
  draw();
  if (failed) show("error", failed);
  $("send").hidden = false;
  $("stop").hidden = true;
  $("text").focus();
}

// open shows a conversation.
function open(talk) {
  running?.abort();
  now = talk;
  draw();
}

$("form").addEventListener("submit", e => {
  e.preventDefault();
  const text = $("text").value.trim();
  if (!text || running) return;
  $("text").value = "";
  now.messages.push({ role: "user", content: text });
  save();
  draw();
  answer();
});
$("text").addEventListener("keydown", e => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
    e.preventDefault();
    $("form").requestSubmit();
  }
});
$("stop").addEventListener("click", () => running?.abort());
$("system").addEventListener("change", () => { now.system = $("system").value; save(); });
$("temperature").addEventListener("change", () => { now.temperature = Number($("temperature").value); save(); });
$("list").addEventListener("change", () => open(all[Number($("list").value)]));
$("clear").addEventListener("click", () => {
  if (all[0].messages.length) all.unshift(fresh());
  open(all[0]);
});
$("forget").addEventListener("click", () => {
  all = all.filter(c => c !== now);
  if (!all.length) all = [fresh()];
  save();
  open(all[0]);
});
$("key").addEventListener("change", describe);
draw();
describe();
