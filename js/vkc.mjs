// vkc for JavaScript: tensor programs and language models, on the processor, in a browser or in Node.
//
//   import { start } from "./vkc.mjs";
//   const vkc = await start();
//   vkc.put("model.gguf", bytes);
//   const model = await vkc.open("model.gguf");
//   for await (const text of model.generate("Once upon a time", { maxTokens: 64 })) show(text);
//   await model.close();
//
// vkc.wasm and wasm_exec.js, which Go's distribution has, must lie next to this file: `make js` puts all into bin/js.

const arrays = {
  f32: Float32Array, f64: Float64Array, i64: BigInt64Array, i32: Int32Array, u32: Uint32Array, i16: Int16Array,
  u16: Uint16Array, i8: Int8Array, u8: Uint8Array,
};

// start loads vkc. source is the URL, the bytes or the WebAssembly.Module of vkc.wasm.
export async function start(source = new URL("vkc.wasm", import.meta.url)) {
  const files = new Map();
  globalThis.fs = fileSystem(files);
  globalThis.process ??= { pid: 1, ppid: 1, cwd: () => "/", umask: () => 0, getuid: () => 0, getgid: () => 0,
    geteuid: () => 0, getegid: () => 0, getgroups: () => [] };
  globalThis.path ??= { resolve: (...parts) => parts.join("/") };
  await import(new URL("wasm_exec.js", import.meta.url));
  const go = new globalThis.Go();
  const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(await bytesOf(source));
  const core = await new Promise((ready, fail) => {
    globalThis.vkcModule = { ready };
    WebAssembly.instantiate(module, go.importObject).then((instance) => go.run(instance)).then(
      (code) => fail(new Error(`vkc ended with code ${code}`)), fail);
  });
  return new Vkc(core, files);
}

async function bytesOf(source) {
  if (!(source instanceof URL) && typeof source !== "string") return source;
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:") return (await import("node:fs/promises")).readFile(url);
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
  return answer.arrayBuffer();
}

class Vkc {
  #core;
  #files;
  constructor(core, files) {
    this.#core = core;
    this.#files = files;
    this.version = core.version;
  }

  // put adds a file, a Uint8Array or ArrayBuffer, for load and open. It is not copied.
  put(name, bytes) {
    this.#files.set(name, bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes));
  }

  // remove removes a file. Programs and models that were loaded from it stay usable.
  remove(name) {
    this.#files.delete(name);
  }

  // load loads a graph (graph.json, text IR or an ONNX model), with weights in GGUF or safetensors if it needs any.
  async load(graph, { weights } = {}) {
    return new Program(await this.#core.load(graph, weights));
  }

  // open opens a language model in GGUF. context is the maximum number of tokens of prompt and answer.
  async open(name, { context } = {}) {
    return new Model(await this.#core.open(name, { context }));
  }
}

// Program is a loaded graph. inputs and outputs list names and types, such as f32[2,3].
class Program {
  #core;
  constructor(core) {
    this.#core = core;
    this.inputs = core.inputs;
    this.outputs = core.outputs;
  }

  // run computes the outputs for inputs by name. An input is a typed array, or { data, dims } if its shape has symbols.
  // An output is { data, dims, dtype }. The data of dtypes that JavaScript has no array for are bytes.
  async run(inputs) {
    const plain = {};
    for (const [name, x] of Object.entries(inputs)) {
      const data = x?.data ?? x;
      if (!ArrayBuffer.isView(data)) throw new TypeError(`input "${name}" is no typed array`);
      const want = arrays[this.inputs.find((p) => p.name === name)?.type.split("[")[0]];
      if (want && !(data instanceof want)) {
        throw new TypeError(`input "${name}" is a ${data.constructor.name}, want a ${want.name}`);
      }
      plain[name] = { bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength), dims: x.dims };
    }
    const outputs = await this.#core.run(plain);
    for (const y of Object.values(outputs)) {
      y.data = arrays[y.dtype] ? new arrays[y.dtype](y.bytes.buffer) : y.bytes;
      delete y.bytes;
    }
    return outputs;
  }

  // close frees the program.
  close() {
    return this.#core.close();
  }
}

// Model is a language model.
class Model {
  #core;
  constructor(core) {
    this.#core = core;
    this.context = core.context;
  }

  // generate continues a prompt, or answers a list of messages { role, content } by the model's chat template. It yields
  // pieces of text; leaving the loop ends the answer. Options: maxTokens, temperature (0 chooses the likeliest token),
  // topK, topP, minP, seed.
  async *generate(prompt, options = {}) {
    const pieces = [];
    let wake = () => {};
    let open = true, failure;
    const done = this.#core.generate(prompt, options, (text) => {
      pieces.push(text);
      wake();
      return turn().then(() => open); // the loop and the page run before the next token
    }).then(() => { open = false; wake(); }, (err) => { failure = err; open = false; wake(); });
    try {
      for (;;) {
        while (pieces.length > 0) yield pieces.shift();
        if (!open) break;
        await new Promise((resolve) => { wake = resolve; });
      }
      if (failure) throw failure;
    } finally {
      open = false;
      await done;
    }
  }

  // close frees the model.
  close() {
    return this.#core.close();
  }
}

// turn waits until other tasks have run, without the delay of setTimeout.
function turn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); resolve(); };
    port2.postMessage(null);
  });
}

// fileSystem implements the calls of Node's fs that Go uses, for reading files in memory and writing to the console.
function fileSystem(files) {
  const error = (code) => Object.assign(new Error(code), { code });
  const opened = new Map();
  let next = 3;
  const nameOf = (path) => (files.has(path) ? path : path.replace(/^.*\//, ""));
  const stat = (file) => ({
    dev: 0, ino: 0, mode: file ? 0o100644 : 0o040755, nlink: 1, uid: 0, gid: 0, rdev: 0, size: file?.length ?? 0,
    blksize: 4096, blocks: 0, atimeMs: 0, mtimeMs: 0, ctimeMs: 0, isDirectory: () => !file,
  });
  const find = (path, done) => {
    const file = files.get(nameOf(path));
    if (file) done(null, stat(file));
    else if (path === "/") done(null, stat());
    else done(error("ENOENT"));
  };
  let line = "";
  const decoder = new TextDecoder();
  const print = (bytes) => {
    const lines = (line + decoder.decode(bytes)).split("\n");
    line = lines.pop();
    for (const l of lines) console.error(l);
    return bytes.length;
  };
  const refused = (...args) => args.at(-1)(error("EACCES"));
  return {
    constants: { O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024,
      O_DIRECTORY: 65536 },
    writeSync: (fd, bytes) => print(bytes),
    write: (fd, bytes, offset, length, position, done) => done(null, print(bytes.subarray(offset, offset + length))),
    open(path, flags, mode, done) {
      const file = files.get(nameOf(path));
      if (!file) return done(error("ENOENT"));
      if (flags & 3) return done(error("EACCES"));
      opened.set(next, { file, at: 0 });
      done(null, next++);
    },
    close: (fd, done) => done(opened.delete(fd) ? null : error("EBADF")),
    read(fd, buffer, offset, length, position, done) {
      const f = opened.get(fd);
      if (!f) return done(error("EBADF"));
      const from = position ?? f.at;
      const part = f.file.subarray(from, from + length);
      buffer.set(part, offset);
      if (position === null) f.at += part.length;
      done(null, part.length);
    },
    fstat: (fd, done) => (opened.has(fd) ? done(null, stat(opened.get(fd).file)) : done(error("EBADF"))),
    stat: find,
    lstat: find,
    fsync: (fd, done) => done(null),
    readdir: (path, done) => done(null, [...files.keys()]),
    readlink: (path, done) => done(error("EINVAL")),
    ...Object.fromEntries(["chmod", "chown", "fchmod", "fchown", "ftruncate", "lchown", "link", "mkdir", "rename", "rmdir",
      "symlink", "truncate", "unlink", "utimes"].map((name) => [name, refused])),
  };
}
