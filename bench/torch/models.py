#!/usr/bin/env python3
"""Exports models with random weights as ONNX, with inputs and outputs beside them, and times them in PyTorch.

usage: models.py FOLDER [--scale tiny|full] [--only NAME,...] [--time [--vkc VKC] [--dtypes f32,f16] [--turns N]
    [--lock FILE]]

FOLDER/NAME/model.onnx and FOLDER/NAME/test_data_set_0 are what `vkc verify --onnx FOLDER` runs; FOLDER/NAME/inputs.txt
has the --input flags of `vkc run FOLDER/NAME/model.onnx --measure`. With --time each model is timed on the GPU, by CUDA
events after a quarter of a second of work, without TF32: eager, compiled, and compiled to CUDA graphs, in each of the
dtypes. VKC is timed in turns with them, in full precision beside f32 and in half beside f16. Printed is the best of N
turns, in us, and the largest difference of results from PyTorch's in f32 on the processor. Several of this program may
prepare their models at a time: whoever times something holds the lock of FILE.

It wants PyTorch 2.6 or later with torchvision, transformers, onnx and onnxscript.
"""
import argparse
import copy
import fcntl
import json
import math
import os
import subprocess
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """A block of two convolutions that is told the time step, as in a diffusion U-Net."""

    def __init__(self, inner, outer, steps):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.step = nn.Linear(steps, outer)
        self.short = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, step):
        y = self.conv1(F.silu(self.norm1(x))) + self.step(F.silu(step))[:, :, None, None]
        return self.short(x) + self.conv2(F.silu(self.norm2(y)))


class Attend(nn.Module):
    """Attention of all pixels to all pixels."""

    def __init__(self, channels, heads):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, channels), heads
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, 3, self.heads, c // self.heads, h * w).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(2, 3).reshape(b, c, h, w))


class UNet(nn.Module):
    """Predicts the noise in a picture at a time step: two levels down, attention in the middle, two levels up."""

    def __init__(self, width, heads):
        super().__init__()
        self.width, steps = width, 4 * width
        self.embed = nn.Sequential(nn.Linear(width, steps), nn.SiLU(), nn.Linear(steps, steps))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down1, self.down2 = Residual(width, width, steps), Residual(width, 2 * width, steps)
        self.half1, self.half2 = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
        self.middle1, self.middle2 = Residual(2 * width, 4 * width, steps), Residual(4 * width, 4 * width, steps)
        self.attend = Attend(4 * width, heads)
        self.up2, self.up1 = Residual(6 * width, 2 * width, steps), Residual(3 * width, width, steps)
        self.norm, self.last = nn.GroupNorm(8, width), nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x, t):
        rates = torch.exp(-math.log(10000) * torch.arange(self.width // 2, device=x.device) / (self.width // 2))
        angles = t[:, None].float() * rates[None]
        step = self.embed(torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype))
        a = self.down1(self.first(x), step)
        b = self.down2(self.half1(a), step)
        y = self.middle2(self.attend(self.middle1(self.half2(b), step)), step)
        y = self.up2(torch.cat([F.interpolate(y, scale_factor=2.0), b], 1), step)
        y = self.up1(torch.cat([F.interpolate(y, scale_factor=2.0), a], 1), step)
        return self.last(F.silu(self.norm(y)))


class Last(nn.Module):
    """A model of transformers whose only result is its last hidden state."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).last_hidden_state


def models(tiny):
    import torchvision
    import transformers

    side = 64 if tiny else 224
    picture = torch.randn(1, 3, side, side)
    if tiny:
        yield "resnet", torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1]), (picture,)
        vit = torchvision.models.VisionTransformer(side, 16, 2, 4, 64, 128)
    else:
        yield "resnet", torchvision.models.resnet50(), (picture,)
        vit = torchvision.models.vit_b_16()
    nn.init.normal_(vit.heads.head.weight, std=0.02)
    yield "vit", vit, (picture,)
    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                 vocab_size=1000) if tiny else {}
    bert = transformers.BertModel(transformers.BertConfig(**small), add_pooling_layer=False)
    yield "bert", Last(bert), (torch.randint(0, 1000, (1, 32 if tiny else 128)),)
    small = dict(d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, decoder_layers=1,
                 decoder_attention_heads=4, decoder_ffn_dim=128, max_source_positions=150) if tiny else \
        dict(d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072, decoder_layers=1)
    whisper = transformers.WhisperModel(transformers.WhisperConfig(**small)).encoder
    yield "whisper", Last(whisper), (torch.randn(1, 80, 300 if tiny else 3000),)
    unet, picture = UNet(16 if tiny else 128, 4), torch.randn(1, 4, 16 if tiny else 64, 16 if tiny else 64)
    yield "unet", unet, (picture, torch.tensor([37]))


def export(folder, model, inputs):
    import onnx
    from onnx import numpy_helper

    os.makedirs(f"{folder}/test_data_set_0", exist_ok=True)
    path = f"{folder}/model.onnx"
    torch.onnx.export(model, inputs, path, dynamo=True, verbose=False)
    names = [i.name for i in onnx.load(path, load_external_data=False).graph.input]
    with torch.no_grad():
        output = model(*inputs)
    flags = []
    for i, (name, x) in enumerate(zip(names, inputs)):
        with open(f"{folder}/test_data_set_0/input_{i}.pb", "wb") as f:
            f.write(numpy_helper.from_array(x.numpy(), name).SerializeToString())
        np.save(f"{folder}/{i}.npy", x.numpy())
        flags.append(f"--input {name}={folder}/{i}.npy")
    with open(f"{folder}/test_data_set_0/output_0.pb", "wb") as f:
        f.write(numpy_helper.from_array(output.numpy()).SerializeToString())
    np.save(f"{folder}/output.npy", output.numpy())
    with open(f"{folder}/output.txt", "w") as f:
        f.write(onnx.load(path, load_external_data=False).graph.output[0].name + "\n")
    with open(f"{folder}/inputs.txt", "w") as f:
        f.write(" ".join(flags) + "\n")


def timed(run):
    """The median time of a call in us."""
    begin = time.time()
    while time.time() - begin < 0.25:
        run()
        torch.cuda.synchronize()
    times = []
    for _ in range(30):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(5):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / 5)
    return sorted(times)[len(times) // 2]


def measured(vkc, folder, precision):
    """Times of vkc in us, by the device's clock and by the wall clock, and its largest difference from PyTorch's."""
    with open(f"{folder}/inputs.txt") as f:
        flags = f.read().split()
    with open(f"{folder}/output.txt") as f:
        output = f.read().strip()
    run = subprocess.run([vkc, "run", f"{folder}/model.onnx", *flags, "--measure", "--json", "--precision", precision,
                          "--output", f"{output}={folder}/vkc.npy"], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr)
    times = json.loads(run.stdout)["measured"]
    off = np.abs(np.load(f"{folder}/vkc.npy") - np.load(f"{folder}/output.npy")).max()
    return times["device"]["us"], times["wall"]["us"], off


def clock(name, folder, model, inputs, args):
    runs, best, right = {}, {}, np.load(f"{folder}/output.npy")
    dtypes, precisions = args.dtypes.split(","), {"f32": "full", "f16": "half"}
    for label in dtypes:
        dtype = {"f32": torch.float32, "f16": torch.float16}[label]
        m = copy.deepcopy(model).to("cuda", dtype)
        x = [i.to("cuda", dtype) if i.is_floating_point() else i.to("cuda") for i in inputs]
        runs[f"{label} eager"] = lambda m=m, x=x: m(*x)
        for mode, what in ("default", "compiled"), ("reduce-overhead", "graphs"):
            run = torch.compile(m, mode=mode)
            runs[f"{label} {what}"] = lambda run=run, x=x: run(*x)
    with torch.no_grad():
        for key, run in runs.items():
            best[f"{key} error"] = np.abs(run().float().cpu().numpy() - right).max()
        torch.cuda.synchronize()
        for label in dtypes if args.vkc else []:
            measured(args.vkc, folder, precisions[label])  # which compiles it
        print(f"prepared {name}", flush=True)
        with open(args.lock, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for _ in range(args.turns):
                for key, run in runs.items():
                    us = timed(run)
                    best[key] = min(best.get(key, us), us)
                for label in dtypes if args.vkc else []:
                    precision = precisions[label]
                    device, wall, off = measured(args.vkc, folder, precision)
                    for key, us in (f"vkc {precision} device", device), (f"vkc {precision} wall", wall):
                        best[key] = min(best.get(key, us), us)
                    best[f"vkc {precision} error"] = off
            print(name, "\t".join(f"{key} {value:.4g}" for key, value in best.items()), flush=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folder")
    flags.add_argument("--scale", choices=["tiny", "full"], default="full")
    flags.add_argument("--time", action="store_true")
    flags.add_argument("--only", default="")
    flags.add_argument("--vkc", default="")
    flags.add_argument("--dtypes", default="f32")
    flags.add_argument("--turns", type=int, default=3)
    flags.add_argument("--lock", default="/tmp/vkc-models.lock")
    args = flags.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for name, model, inputs in models(args.scale == "tiny"):
        if args.only and name not in args.only.split(","):
            continue
        model.eval()
        export(f"{args.folder}/{name}", model, inputs)
        print(f"exported {name}", flush=True)
        if args.time:
            clock(name, f"{args.folder}/{name}", model, inputs, args)


if __name__ == "__main__":
    main()
