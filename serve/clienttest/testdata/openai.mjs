// OpenAI's client for JavaScript talks with vkc serve: node openai.mjs URL URL-OF-EMBEDDINGS. See npm_test.go.
import assert from "node:assert/strict";
import OpenAI from "openai";

const open = (baseURL, apiKey = "secret") => new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const client = open(process.argv[2]), vectors = open(process.argv[3]);
const ask = {
  model: "talker",
  messages: [{ role: "system", content: "x" }, { role: "user", content: "func main" }],
  temperature: 0,
  max_completion_tokens: 6,
};
const free = { ...ask, max_completion_tokens: undefined };
const schema = {
  type: "object",
  properties: { n: { enum: [1, 2] }, day: { type: "string", format: "date" } },
  required: ["n", "day"],
  additionalProperties: false,
};

const tests = {
  async chat() {
    const got = await client.chat.completions.create(ask);
    assert.equal(got.usage.completion_tokens, 6);
    assert.equal(got.choices[0].finish_reason, "length");
    assert.ok(got.choices[0].message.content);
  },

  async stream() {
    const whole = await client.chat.completions.create(ask);
    const stream = client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
    let text = "";
    stream.on("content", (part) => (text += part));
    const last = await stream.finalChatCompletion();
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(last.choices[0].message.content, text);
    assert.equal((await stream.totalUsage()).completion_tokens, 6);
  },

  async "a stream that the client leaves"() {
    const stream = await client.chat.completions.create({ ...ask, max_completion_tokens: 100, stream: true });
    for await (const part of stream) {
      assert.equal(part.object, "chat.completion.chunk");
      break;
    }
    stream.controller.abort();
    await client.models.list();
  },

  async tools() {
    const tools = [{ type: "function", function: { name: "look_up", strict: true, parameters: schema } }];
    const got = await client.chat.completions.create({ ...free, tools, tool_choice: "required" });
    const call = got.choices[0].message.tool_calls[0];
    assert.equal(got.choices[0].finish_reason, "tool_calls");
    assert.equal(call.function.name, "look_up");
    assert.ok([1, 2].includes(JSON.parse(call.function.arguments).n));
    const stream = client.chat.completions.stream({ ...free, tools, tool_choice: "required" });
    const streamed = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
    assert.equal(streamed.function.arguments, call.function.arguments);
    const result = { role: "tool", tool_call_id: call.id, content: "3" };
    const next = await client.chat.completions.create({
      ...ask, tools, messages: [...ask.messages, got.choices[0].message, result],
    });
    assert.ok(next.id);
  },

  async "tools that the client runs"() {
    let calls = 0;
    const runner = client.chat.completions.runTools({
      ...free,
      max_completion_tokens: 60,
      tool_choice: { type: "function", function: { name: "look_up" } },
      tools: [{
        type: "function",
        function: { name: "look_up", parameters: schema, parse: JSON.parse, function: async () => (calls++, "3") },
      }],
    }, { maxChatCompletions: 2 });
    await runner.done();
    assert.ok(calls > 0);
  },

  async json_schema() {
    const response_format = { type: "json_schema", json_schema: { name: "x", strict: true, schema } };
    const got = await client.chat.completions.parse({ ...free, response_format });
    const answer = JSON.parse(got.choices[0].message.content);
    assert.ok([1, 2].includes(answer.n));
    assert.match(answer.day, /^\d{4}-\d\d-\d\d$/);
    assert.equal(got.choices[0].finish_reason, "stop");
  },

  async responses() {
    const got = await client.responses.create({ model: "talker", input: "func main", max_output_tokens: 6 });
    assert.equal(got.usage.output_tokens, 6);
    const stream = await client.responses.create({
      model: "talker", input: "func main", max_output_tokens: 6, temperature: 0, stream: true,
    });
    const types = new Set();
    for await (const event of stream) types.add(event.type);
    assert.ok(types.has("response.created") && types.has("response.output_text.delta"));
  },

  async completions() {
    const got = await client.completions.create({ model: "talker", prompt: ["func", "import"], max_tokens: 2, n: 2 });
    assert.equal(got.choices.length, 4);
  },

  async embeddings() {
    for (const encoding_format of [undefined, "float", "base64"]) {
      const got = await vectors.embeddings.create({ model: "talker", input: ["func", "func main() {"], encoding_format });
      assert.equal(got.data.length, 2);
      assert.ok(got.usage.total_tokens > 2);
      if (encoding_format !== "base64") {
        const [x, y] = got.data[1].embedding;
        assert.ok(Math.abs(x * x + y * y - 1) < 1e-5, `${x} ${y}`);
      }
    }
  },

  async models() {
    const names = [];
    for await (const m of client.models.list()) names.push(m.id);
    assert.deepEqual(names, ["talker"]);
  },

  async errors() {
    const fails = (status, param) => (err) => err instanceof OpenAI.APIError && err.status === status &&
      (param === undefined || err.param === param);
    await assert.rejects(client.chat.completions.create({ ...ask, model: "gpt" }), fails(404, "model"));
    await assert.rejects(client.chat.completions.create({ ...ask, n: 99 }), fails(400, "n"));
    await assert.rejects(open(process.argv[2], "wrong").models.list(), fails(401));
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log("ok   " + name);
  } catch (err) {
    failed++;
    console.log(`FAIL ${name}: ${err.stack}`);
  }
}
process.exit(failed);
