#!/usr/bin/env python3
"""Times the models of examples/ocr in vkc, in onnxruntime and in PyTorch, in turns, and compares their results.

usage: ocr.py FOLDER --vkc VKC [--scratch FOLDER] [--turns N]

FOLDER is .tools/models/ocr/assets. onnxruntime runs on each provider that it has. PyTorch runs the ops of the models
one by one on the GPU, as onnxruntime's CUDA provider does, by the same library of convolutions; also replayed as a CUDA
graph, which leaves out the host; in f32, with TF32, which onnxruntime's provider allows, and in f16. Times are medians
of runs after a quarter of a second of work, the best of N turns (3), onnxruntime's of one: on a GPU with inputs and
outputs there, of vkc both by the device's clock and by the wall clock with inputs and outputs on the host, as
onnxruntime has them.

It wants PyTorch, onnx and onnxruntime.
"""
import argparse
import json
import os
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torch.nn import functional as F

from models import timed


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def pads(a):
    """The padding of a window of two dimensions, as PyTorch has it: the same before and after."""
    p = a.get("pads", [0, 0, 0, 0])
    assert p[:2] == p[2:], p
    return p[:2]


def squeeze(x, axes):
    for axis in sorted(axes, reverse=True):
        x = x.squeeze(axis)
    return x


def unsqueeze(x, axes):
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


def cut(x, starts, ends, axes=None, steps=None):
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist())):
        at = [slice(None)] * x.ndim
        step = int(steps[i]) if steps is not None else 1
        at[axes.tolist()[i] if axes is not None else i] = slice(start, min(end, 2**31), step)
        x = x[tuple(at)]
    return x


def reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape.tolist())])


# Each op of the models: its inputs, and its attributes.
ops = {
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Pow": lambda a, x, y: x ** y,
    "Sqrt": lambda a, x: x.sqrt(),
    "Relu": lambda a, x: x.relu(),
    "Sigmoid": lambda a, x: x.sigmoid(),
    "HardSigmoid": lambda a, x: (x * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0, 1),
    "Clip": lambda a, x, low=None, high=None: x.clamp(a.get("min", low), a.get("max", high)),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Cast": lambda a, x: x,  # between integers
    "Shape": lambda a, x: torch.tensor(x.shape),
    "Slice": lambda a, x, *at: cut(x, *(at or (torch.tensor(a["starts"]), torch.tensor(a["ends"]),
                                                torch.tensor(a["axes"])))),
    "Squeeze": lambda a, x: squeeze(x, a["axes"]),
    "Unsqueeze": lambda a, x: unsqueeze(x, a["axes"]),
    "Reshape": lambda a, x, shape: reshape(x, shape),
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "MatMul": lambda a, x, y: x @ y,
    "Softmax": lambda a, x: x.softmax(a.get("axis", 1)),
    "ReduceMean": lambda a, x: x.mean(a["axes"], bool(a.get("keepdims", 1))),
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), True),
    "AveragePool": lambda a, x: F.avg_pool2d(x, a["kernel_shape"], a["strides"], pads(a)),
    "MaxPool": lambda a, x: F.max_pool2d(x, a["kernel_shape"], a["strides"], pads(a)),
    "BatchNormalization": lambda a, x, scale, bias, mean, var: F.batch_norm(x, mean, var, scale, bias, False, 0,
                                                                           a.get("epsilon", 1e-5)),
    "Conv": lambda a, x, w, b=None: F.conv2d(x, w, b, a["strides"], pads(a), a["dilations"], a["group"]),
    "ConvTranspose": lambda a, x, w, b=None: F.conv_transpose2d(x, w, b, a["strides"], pads(a)),
    "Resize": lambda a, x: F.interpolate(x, scale_factor=a["scales"][2:]),
}


class Model:
    """An ONNX model by PyTorch's ops. Integers, which are shapes, stay on the host."""

    def __init__(self, path, dtype):
        self.dtype = dtype
        graph = onnx.load(path).graph
        self.constants = {i.name: self.tensor(i) for i in graph.initializer}
        scales = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.nodes, self.output = [], graph.output[0].name
        for node in graph.node:
            a = attributes(node)
            if node.op_type == "Constant":
                self.constants[node.output[0]] = self.tensor(a["value"])
                scales[node.output[0]] = numpy_helper.to_array(a["value"])
                continue
            inputs = list(node.input)
            if node.op_type == "Resize":
                a["scales"], inputs = scales[inputs[2]].tolist(), inputs[:1]
            self.nodes.append((ops[node.op_type], a, inputs, node.output[0]))

    def tensor(self, t):
        x = torch.from_numpy(numpy_helper.to_array(t).copy())
        return x.to("cuda", self.dtype) if x.is_floating_point() and x.numel() else x

    def __call__(self, x):
        values = dict(self.constants, x=x)
        for op, a, inputs, output in self.nodes:
            values[output] = op(a, *(values.get(i) for i in inputs))
        return values[self.output]


def median(run, wait):
    begin = time.time()
    while time.time() - begin < 0.25:
        run()
        wait()
    times = []
    while len(times) < 5 or sum(times) < 0.3:
        start = time.perf_counter()
        run()
        wait()
        times.append(time.perf_counter() - start)
    return 1e6 * sorted(times)[len(times) // 2]


def recorded(model, x):
    """What replays a CUDA graph of the model."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    return graph.replay, y


def measured(vkc, path, dims, x, y, precision):
    """Times of vkc in us, by the device's clock and by the wall clock."""
    names = [n for d in dims for n in ("--dim", d)]
    out = subprocess.run([vkc, "run", path, *names, "--input", f"x={x}", "--measure", "--json",
                          "--precision", precision, "--output", y], capture_output=True, text=True)
    if out.returncode:
        print(out.stderr)
        return {}
    return json.loads(out.stdout)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folder")
    flags.add_argument("--vkc", default="vkc")
    flags.add_argument("--scratch", default="/tmp/ocr-scratch")
    flags.add_argument("--turns", type=int, default=3)
    args = flags.parse_args()
    os.makedirs(args.scratch, exist_ok=True)
    known = "CUDAExecutionProvider", "CPUExecutionProvider"
    providers = [p for p in onnxruntime.get_available_providers() if p in known]
    print("onnxruntime", onnxruntime.__version__, onnxruntime.get_available_providers())
    n, h, w = ("p2o.DynamicDimension.%d" % i for i in range(3))
    for name, file, shape, dims in [
        ("detector", "ch_PP-OCRv4_det_infer.onnx", (3, 640, 640), (n, h, w)),
        ("recogniser", "ch_PP-OCRv4_rec_infer.onnx", (3, 48, 320), (n, None, h)),
    ]:
        path = os.path.join(args.folder, file)
        with torch.no_grad():
            model, half = Model(path, torch.float32), Model(path, torch.float16)
            for batch in 1, 16:
                x = np.random.default_rng(1).uniform(-1, 1, (batch, *shape)).astype(np.float32)
                np.save(f"{args.scratch}/x.npy", x)
                given = [f"{d}={v}" for d, v in zip(dims, (batch, *shape[1:])) if d]
                on_device, best, results = torch.from_numpy(x).cuda(), {}, {}

                def take(key, us):
                    best[key] = min(best.get(key, us), us)

                sessions = {p: onnxruntime.InferenceSession(path, providers=[p]) for p in providers}
                for turn in range(args.turns):
                    for p, session in sessions.items() if turn == 0 else []:
                        take(f"onnxruntime {p[:-17]}", median(lambda: session.run(None, {"x": x}), lambda: None))
                        results[p] = session.run(None, {"x": x})[0]
                    for mark, m, given_x in [("f32", model, on_device), ("TF32", model, on_device),
                                             ("f16", half, on_device.half())]:
                        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mark == "TF32"
                        take(f"torch {mark} eager", timed(lambda: m(given_x)))
                        replay, y = recorded(m, given_x)
                        take(f"torch {mark} graph", timed(replay))
                        results[f"torch {mark}"] = y.float().cpu().numpy()
                    for precision in "full", "half":
                        got = measured(args.vkc, path, given, f"{args.scratch}/x.npy",
                                       f"{model.output}={args.scratch}/y.npy", precision)
                        for clock, times in got.get("measured", {}).items():
                            take(f"vkc {precision} {clock}", times["us"])
                        if got:
                            results[f"vkc {precision}"] = np.load(f"{args.scratch}/y.npy")
                right = results["CPUExecutionProvider"]
                print(name, batch, "\t".join(f"{k} {v:.0f}" for k, v in best.items()))
                print(name, batch, "largest difference from onnxruntime's:",
                      {k: float(np.abs(v - right).max()) for k, v in results.items()}, flush=True)


if __name__ == "__main__":
    main()
