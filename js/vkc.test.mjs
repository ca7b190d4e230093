// Tests of vkc.mjs under Node: node --test bin/js/vkc.test.mjs MODEL.gguf, after `make js`; `make js-test` does both.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { start } from "./vkc.mjs";

const vkc = await start();
const text = new TextEncoder();

test("a graph with a symbol runs, and says what is wrong with its inputs", async () => {
  vkc.put("double.txt", text.encode(`graph "double" {
    symbol T <= 100
    %x = input {name="x", dtype=f32, shape=[T,2]}
    %n = input {name="n", dtype=i32, shape=[1]}
    %c = cast %n {dtype=f32}
    %y = mul %x, %c
    %s = softmax %x
    output "y" %y
    output "s" %s
  }`));
  const program = await vkc.load("double.txt");
  assert.deepEqual(program.inputs.map((p) => p.name), ["x", "n"]);
  const x = { data: Float32Array.of(1, 2, 3, 4), dims: [2, 2] };
  const { y, s } = await program.run({ x, n: Int32Array.of(2) });
  assert.deepEqual([...y.data], [2, 4, 6, 8]);
  assert.deepEqual(y.dims, [2, 2]);
  assert.equal(y.dtype, "f32");
  assert.ok(Math.abs(s.data[0] + s.data[1] - 1) < 1e-6);
  await assert.rejects(program.run({ x }), /input "n" is missing/);
  await assert.rejects(program.run({ x: x.data, n: Int32Array.of(2) }), /give \{data, dims\}/);
  await assert.rejects(program.run({ x: { ...x, dims: [3, 2] }, n: Int32Array.of(2) }), /24 bytes, and 16 are given/);
  await assert.rejects(program.run({ x: { ...x, dims: [1e9, 2] }, n: Int32Array.of(2) }), /and 16 are given/);
  await assert.rejects(program.run({ x: { ...x, dims: ["2"] }, n: Int32Array.of(2) }), /wrong arguments/);
  await assert.rejects(program.run({ x: { ...x, data: Int32Array.of(1, 2, 3, 4) } }), /"x" is a Int32Array, want a Float32/);
  await program.close();
});

test("files that are missing or damaged are errors", async () => {
  await assert.rejects(vkc.load("nothing.json"), /nothing.json/);
  vkc.put("damaged.gguf", text.encode("GGUF and no more"));
  await assert.rejects(vkc.open("damaged.gguf"), /gguf/);
});

test("a language model answers, the same each time, and stops where the loop is left", async () => {
  vkc.put("model.gguf", await readFile(process.env.TEST_MODEL));
  const model = await vkc.open("model.gguf", { context: 128 });
  const answer = async (options) => {
    let all = "";
    for await (const piece of model.generate("func main() {", options)) all += piece;
    return all;
  };
  const begun = performance.now();
  const first = await answer({ maxTokens: 64 });
  console.log(`64 tokens in ${Math.round(performance.now() - begun)} ms: ${JSON.stringify(first)}`);
  assert.equal(first, process.env.TEST_ANSWER ?? first);
  assert.equal(await answer({ maxTokens: 64 }), first);
  const random = { maxTokens: 16, temperature: 1, seed: 7 };
  assert.equal(await answer(random), await answer(random));
  let pieces = 0, beats = 0;
  const beat = setInterval(() => beats++, 1); // others run while it generates
  for await (const piece of model.generate("func main() {", { maxTokens: 1000 })) {
    assert.ok(first.startsWith(piece) || pieces > 0);
    if (++pieces === 3) break;
  }
  clearInterval(beat);
  assert.equal(pieces, 3);
  assert.ok(beats > 0, "nothing else runs between tokens");
  await assert.rejects(async () => { for await (const _ of model.generate(undefined)); }, /wrong arguments/);
  await model.close();
});
