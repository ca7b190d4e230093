"use strict";
// A conversation with the model that this server has. Nothing is kept when the page closes.
const $ = id => document.getElementById(id);
let messages = [], running = null;

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

async function ask(text) {
  messages.push({ role: "user", content: text });
  show("user", text);
  const answer = show("assistant", "");
  running = new AbortController();
  $("send").hidden = true;
  $("stop").hidden = false;
  try {
    const r = await fetch("v1/chat/completions", {
      method: "POST", headers: headers(), signal: running.signal,
      body: JSON.stringify({ messages, stream: true, temperature: Number($("temperature").value) }),
    });
    if (!r.ok) throw new Error((await r.json()).error.message);
    for await (const data of events(r.body)) {
      if (data === "[DONE]") break;
      const part = JSON.parse(data);
      if (part.error) throw new Error(part.error.message);
      answer.textContent += part.choices[0]?.delta.content ?? "";
      answer.scrollIntoView({ block: "end" });
    }
  } catch (e) {
    if (e.name !== "AbortError") show("error", e.message);
  }
  if (answer.textContent) messages.push({ role: "assistant", content: answer.textContent });
  else { messages.pop(); answer.remove(); } // the message is not answered, and can be sent again
  running = null;
  $("send").hidden = false;
  $("stop").hidden = true;
  $("text").focus();
}

$("form").addEventListener("submit", e => {
  e.preventDefault();
  const text = $("text").value.trim();
  if (!text || running) return;
  $("text").value = "";
  ask(text);
});
$("text").addEventListener("keydown", e => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
    e.preventDefault();
    $("form").requestSubmit();
  }
});
$("stop").addEventListener("click", () => running?.abort());
$("clear").addEventListener("click", () => {
  running?.abort();
  messages = [];
  $("log").replaceChildren();
});
$("key").addEventListener("change", describe);
describe();
