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

// atEnd reports whether the end of the conversation is in sight. Only then new text scrolls it.
const atEnd = () => $("log").scrollHeight - $("log").scrollTop - $("log").clientHeight < 40;

function scrollToEnd() { $("log").scrollTop = $("log").scrollHeight; }

// show adds an article of plain text, which no text can break out of.
function show(kind, text) {
  const a = element("article", text), follow = atEnd();
  a.className = kind;
  $("log").append(a);
  if (follow || kind === "user") scrollToEnd();
  return a;
}

// fold is text that is folded away.
function fold(kind, title, text, open) {
  const d = element("details", element("summary", title), element("div", text));
  d.className = kind;
  d.open = open;
  return d;
}

// fill shows an answer: reasoning and calls folded, and its Markdown. What the reader has unfolded stays so.
function fill(article, m) {
  const open = new Set([...article.querySelectorAll("details[open]")].map(d => d.className)), parts = [];
  if (m.reasoning) parts.push(fold("thinking", "Thinking", m.reasoning, open.has("thinking")));
  parts.push(...markdown(m.content ?? ""));
  (m.calls ?? []).forEach((c, i) => parts.push(fold("call" + i, "Calls " + c.name, c.arguments, open.has("call" + i))));
  article.replaceChildren(...parts);
}

function button(name, click) {
  const b = element("button", name);
  b.type = "button";
  b.addEventListener("click", click);
  return b;
}

// numbers are the settings of sampling, by their fields in requests. An empty one is not sent.
const numbers = ["temperature", "top_p", "top_k", "min_p", "max_tokens"];

// draw shows the conversation, and the list of all.
function draw() {
  $("log").replaceChildren();
  now.messages.forEach((m, i) => {
    const a = show(m.role === "tool" ? "user" : m.role, m.role === "assistant" ? "" : m.content);
    if (m.role === "assistant") {
      fill(a, m);
      after(m, i === now.messages.length - 1);
    }
  });
  scrollToEnd();
  for (const name of ["system", "tools", ...numbers]) $(name).value = now[name] ?? "";
  $("list").replaceChildren(...all.map((c, i) => {
    const o = element("option", (c.messages[0]?.content ?? "New conversation").slice(0, 40));
    o.value = i;
    o.selected = c === now;
    return o;
  }));
}

// after adds what can be done with an answer.
function after(message, last) {
  const row = element("nav", button("Copy", () => navigator.clipboard.writeText(message.content)));
  row.setAttribute("aria-label", "Answer");
  if (last) row.append(button("Regenerate", () => {
    if (running) return;
    now.messages.pop();
    draw();
    answer();
  }));
  if (message.rate) row.append(" " + message.rate);
  if (last && message.calls?.length) row.append(" The next message is the result of the calls.");
  $("log").append(row);
}

async function describe() {
  const r = await fetch("v1/models", { headers: headers() });
  $("key-row").hidden = r.status !== 401 && !$("key").value;
  if (!r.ok) return;
  const list = (await r.json()).data;
  $("models-row").hidden = list.length < 2;
  $("models").replaceChildren(...list.map(m => element("option", m.id)));
  title();
}

function title() { document.title = $("model").textContent = $("models").value || "vkc"; }

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

// wire returns the messages of a conversation as requests have them. A message after calls is the result of each.
function wire(talk) {
  const list = talk.system ? [{ role: "system", content: talk.system }] : [];
  let calls = [];
  for (const m of talk.messages) {
    if (m.role === "tool") {
      list.push(...calls.map(c => ({ role: "tool", tool_call_id: c.id, content: m.content })));
      continue;
    }
    const one = { role: m.role, content: m.content };
    calls = m.calls ?? [];
    if (calls.length) one.tool_calls = calls.map(c => ({ id: c.id, type: "function",
      function: { name: c.name, arguments: c.arguments } }));
    list.push(one);
  }
  return list;
}

// request returns the fields of a request for an answer.
function request(talk) {
  const q = { messages: wire(talk), stream: true, stream_options: { include_usage: true } };
  if ($("models").value) q.model = $("models").value;
  for (const name of numbers) if ((talk[name] ?? "") !== "") q[name] = Number(talk[name]);
  if (talk.tools?.trim()) q.tools = JSON.parse(talk.tools);
  return q;
}

// add adds a part of the stream to an answer.
function add(m, delta) {
  m.content += delta.content ?? "";
  m.reasoning += delta.reasoning_content ?? "";
  for (const c of delta.tool_calls ?? []) {
    m.calls[c.index] ??= { id: c.id, name: "", arguments: "" };
    m.calls[c.index].name += c.function?.name ?? "";
    m.calls[c.index].arguments += c.function?.arguments ?? "";
  }
}

// answer has the model answer the last message. What comes before it is stopped counts.
async function answer() {
  const talk = now, part = show("assistant", ""), controller = running = new AbortController();
  const m = { role: "assistant", content: "", reasoning: "", calls: [] };
  let tokens = 0, first = 0, failed = "", drawn = false;
  const update = () => {
    drawn = false;
    const follow = atEnd();
    fill(part, m);
    if (follow) scrollToEnd();
  };
  $("send").hidden = true;
  $("stop").hidden = false;
  $("status").textContent = "The model answers.";
  try {
    const r = await fetch("v1/chat/completions", {
      method: "POST", headers: headers(), signal: controller.signal, body: JSON.stringify(request(talk)),
    });
    if (!r.ok) throw new Error((await r.json()).error.message);
    for await (const data of events(r.body)) {
      if (data === "[DONE]") break;
      const piece = JSON.parse(data);
      if (piece.error) throw new Error(piece.error.message);
      if (piece.usage) tokens = piece.usage.completion_tokens;
      first ||= performance.now();
      add(m, piece.choices[0]?.delta ?? {});
      if (!drawn) requestAnimationFrame(update);
      drawn = true;
    }
  } catch (e) {
    if (e.name !== "AbortError") failed = e.message;
  }
  const seconds = (performance.now() - first) / 1000;
  m.rate = tokens > 1 && seconds > 0 ? `${tokens} tokens, ${((tokens - 1) / seconds).toFixed(1)} a second` : "";
  running = null;
  if (m.content || m.reasoning || m.calls.length) talk.messages.push(m);
  else if (talk.messages.at(-1)?.role === "user") { // not answered, so that it can be sent again
    const unsent = talk.messages.pop();
    if (talk === now && !$("text").value) $("text").value = unsent.content;
  }
  save();
  const place = $("log").scrollTop, follow = atEnd();
  draw();
  if (!follow) $("log").scrollTop = place;
  if (failed) show("error", failed);
  $("status").textContent = failed ? "" : "The answer is complete.";
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
  now.messages.push({ role: now.messages.at(-1)?.calls?.length ? "tool" : "user", content: text });
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
document.addEventListener("keydown", e => { if (e.key === "Escape") running?.abort(); });
for (const name of ["system", "tools", ...numbers])
  $(name).addEventListener("change", () => { now[name] = $(name).value; save(); });
$("models").addEventListener("change", title);
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
