// Runs ONNX models with onnxruntime for main.go. It reads requests from standard input, a line of JSON each. It answers
// each with a line of JSON:
//
//	{"load": "model.onnx", "threads": 2, "inputs": [{"name": "x", "type": "float32", "dims": [1, 3], "file": "x.bin"}]}
//	{"seconds": 0.5}
//
// The first answers with the outputs. It writes their elements to files in the folder of the request. The second runs
// the model again and again. It answers with the shortest time and the mean processor time of a run, in milliseconds.

const fs = require("fs")
const path = require("path")
const ort = require(require.resolve("onnxruntime-node", { paths: [process.argv[2]] }))

let session, feeds

const arrays = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array,
  int8: Int8Array, bool: Uint8Array, float16: Uint16Array, uint16: Uint16Array, int16: Int16Array,
  uint32: Uint32Array,
}

async function load(r) {
  session = await ort.InferenceSession.create(r.load, { intraOpNumThreads: r.threads, executionProviders: ["cpu"],
    logSeverityLevel: 3, graphOptimizationLevel: r.plain ? "disabled" : "all" })
  feeds = {}
  for (const i of r.inputs) {
    const bytes = fs.readFileSync(i.file)
    const array = new arrays[i.type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
    feeds[i.name] = new ort.Tensor(i.type, array, i.dims)
  }
  const outputs = []
  for (const [name, t] of Object.entries(await session.run(feeds))) {
    const file = path.join(r.folder, `out-${outputs.length}.bin`)
    fs.writeFileSync(file, new Uint8Array(t.data.buffer, t.data.byteOffset, t.data.byteLength))
    outputs.push({ name, type: t.type, dims: t.dims, file })
  }
  return { outputs }
}

async function time(seconds) {
  let best = Infinity, runs = 0
  const until = performance.now() + seconds * 1000
  const before = process.cpuUsage()
  while (runs < 3 || performance.now() < until) {
    const start = performance.now()
    await session.run(feeds)
    best = Math.min(best, performance.now() - start)
    runs++
  }
  const used = process.cpuUsage(before)
  return { best, runs, cpu: (used.user + used.system) / 1000 / runs }
}

async function main() {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const r = JSON.parse(line)
    let answer
    try {
      answer = r.load ? await load(r) : await time(r.seconds)
    } catch (e) {
      answer = { error: String(e) }
    }
    console.log(JSON.stringify(answer))
  }
}

main()
