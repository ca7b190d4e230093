"""Writes the golden rows of frontend/vision: tiny towers and projectors, computed from their definitions in float64."""

import json
import math
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "llm"))
from support import gelu, gelu_erf, random, silu, words  # noqa: E402


def quick_gelu(x):
    return x / (1 + np.exp(-1.702 * x))


class Tower:
    """A tower whose weights come to be as they are asked for."""

    def __init__(self, case, projector, image, patch, width=32, heads=2, hidden=48, layers=2, out=32, **meta):
        self.case, self.width, self.heads, self.patch, self.out = case, width, heads, patch, out
        self.hidden, self.layers, self.eps = hidden, layers, 1e-5
        self.meta, self.weights, self.file = {}, {}, {}
        vision = {"image_size": image, "patch_size": patch, "embedding_length": width, "feed_forward_length": hidden,
                  "block_count": layers, "projection_dim": out, "attention.head_count": heads,
                  "attention.layer_norm_epsilon": self.eps, "image_mean": [0.5, 0.25, 0.125],
                  "image_std": [0.5, 0.25, 0.5]}
        self.meta = {"clip.vision." + key: value for key, value in vision.items()}
        self.meta |= {"clip.has_vision_encoder": True, "clip.projector_type": projector}
        self.meta |= {"clip." + key: value for key, value in meta.items()}

    def w(self, name, *dims, offset=0.0, scale=None):
        if name not in self.weights:
            if scale is None:
                scale = 2.0 ** -round(math.log2(math.sqrt(math.prod(dims[1:]))) - 1)
            values = (offset + scale * random(name, math.prod(dims))).astype(np.float32)
            self.weights[name] = values.astype(np.float64).reshape(dims)
            self.file[name] = {"dims": dims, "offset": offset, "scale": scale}
        return self.weights[name]

    def linear(self, x, name, out, bias=True):
        y = x @ self.w(name + ".weight", out, x.shape[-1]).T
        return y + self.w(name + ".bias", out, scale=0.25) if bias else y

    def layer_norm(self, x, name, eps=None):
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + (self.eps if eps is None else eps))
        n = x.shape[-1]
        return y * self.w(name + ".weight", n, offset=1.0, scale=0.5) + self.w(name + ".bias", n, scale=0.25)

    def rms_norm(self, x, name, eps=None):
        y = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + (self.eps if eps is None else eps))
        return y * self.w(name + ".weight", x.shape[-1], offset=1.0, scale=0.5)

    def patches(self, rows, columns, kernels=1, bias=True):
        """Random pixels of rows*columns patches, each channel by channel, and their embedding by a convolution."""
        x = random("patches", rows * columns * 3 * self.patch**2).reshape(rows * columns, -1)
        names = ["v.patch_embd.weight", "v.patch_embd.weight.1"][:kernels]
        y = sum(x @ self.w(n, self.width, 3, self.patch, self.patch).reshape(self.width, -1).T for n in names)
        return y + self.w("v.patch_embd.bias", self.width, scale=0.25) if bias else y

    def attention(self, x, blk, fused=False, turn=None, groups=None):
        """Attention of all patches to all, or to those of the same group."""
        if fused:
            parts = np.split(self.linear(x, blk + "attn_qkv", 3 * self.width), 3, 1)
        else:
            parts = [self.linear(x, blk + "attn_" + part, self.width) for part in "qkv"]
        q, k, v = (part.reshape(len(x), self.heads, -1) for part in parts)
        if turn is not None:
            q, k = turn(q), turn(k)
        y = np.zeros_like(q)
        for i in range(len(x)):
            near = np.arange(len(x)) if groups is None else np.flatnonzero(groups == groups[i])
            for h in range(self.heads):
                score = k[near, h] @ q[i, h] / math.sqrt(q.shape[2])
                share = np.exp(score - score.max())
                y[i, h] = share / share.sum() @ v[near, h]
        return self.linear(y.reshape(len(x), -1), blk + "attn_out", self.width)

    def layer(self, x, i, norm, act, **how):
        blk = f"v.blk.{i}."
        x = x + self.attention(norm(x, blk + "ln1"), blk, **how)
        h = norm(x, blk + "ln2")
        if act is silu:
            h = silu(self.linear(h, blk + "ffn_gate", self.hidden)) * self.linear(h, blk + "ffn_up", self.hidden)
        else:
            h = act(self.linear(h, blk + "ffn_up", self.hidden))
        return x + self.linear(h, blk + "ffn_down", self.width)

    def write(self, rows, grid):
        lines = lambda items: "\n" + ",\n".join(items) + "\n"
        meta = json.dumps({"general.architecture": "clip", **self.meta})
        weights = lines(f"{json.dumps(name)}: {json.dumps(made)}" for name, made in self.file.items())
        values = lines(json.dumps([float(f"{v:.7g}") for v in row]) for row in rows)
        text = f'{{"meta": {meta},\n"grid": {list(grid)},\n"weights": {{{weights}}},\n"rows": [{values}]}}\n'
        Path(__file__).with_name(self.case + ".json").write_text(text)


def in_blocks(rows, columns, side):
    """The rows and columns of patches, a square of side*side patches after the other."""
    at = np.arange(rows * columns).reshape(rows // side, side, columns // side, side).transpose(0, 2, 1, 3).reshape(-1)
    return at // columns, at % columns


def gemma3():
    t = Tower("gemma3", "gemma3", 32, 4, **{"use_gelu": True, "vision.projector.scale_factor": 4})
    side = 8
    row, column = in_blocks(side, side, 4)
    x = t.patches(side, side) + t.w("v.position_embd.weight", side**2, t.width, scale=1.0)[row * side + column]
    for i in range(t.layers):
        x = t.layer(x, i, t.layer_norm, gelu)
    x = t.layer_norm(x, "v.post_ln")
    x = x.reshape(-1, 16, t.width).mean(1)
    x = t.rms_norm(x, "mm.soft_emb_norm")
    t.write(x @ t.w("mm.input_projection.weight", t.width, t.out), (side, side))


def idefics3():
    t = Tower("idefics3", "idefics3", 16, 4, **{"use_gelu": True, "vision.projector.scale_factor": 2})
    side = 4
    x = t.patches(side, side)  # in the order of blocks, as the positions below
    row, column = in_blocks(side, side, 2)
    x = x + t.w("v.position_embd.weight", side**2, t.width, scale=1.0)[row * side + column]
    for i in range(t.layers):
        x = t.layer(x, i, t.layer_norm, gelu)
    x = t.layer_norm(x, "v.post_ln")
    grid = np.zeros((side, side, t.width))
    grid[row, column] = x
    # The published shuffle: halves of a row side by side, then halves of a column.
    grid = grid.reshape(side, side // 2, 2 * t.width).transpose(1, 0, 2)
    grid = grid.reshape(side // 2, side // 2, 4 * t.width).transpose(1, 0, 2).reshape(4, 4 * t.width)
    t.write(t.linear(grid, "mm.model.fc", t.out, bias=False), (side, side))


def llava(case="llava", layers=2, **meta):
    t = Tower(case, "mlp", 16, 4, layers=layers, **{"use_gelu": False, "has_llava_projector": True}, **meta)
    side = 4
    x = np.concatenate([t.w("v.class_embd", t.width, scale=1.0)[None], t.patches(side, side, bias=False)])
    x = x + t.w("v.position_embd.weight", side**2 + 1, t.width, scale=1.0)
    x = t.layer_norm(x, "v.pre_ln")
    for i in range(2):
        x = t.layer(x, i, t.layer_norm, quick_gelu)
    t.write(t.linear(gelu_erf(t.linear(x[1:], "mm.0", 40)), "mm.2", t.out), (side, side))


def turning(row, column, size, base=10000.0):
    """Half of the pairs of a head turn by the row, and half by the column."""
    frequency = base ** (-np.arange(0, size // 2, 2) / (size // 2))
    angle = np.concatenate([row[:, None] * frequency, column[:, None] * frequency], 1)[:, None]

    def turn(x):
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)

    return turn


def qwen2vl():
    t = Tower("qwen2vl", "qwen2vl_merger", 16, 4)
    row, column = in_blocks(4, 6, 2)
    x = t.patches(4, 6, kernels=2, bias=False)
    for i in range(t.layers):
        x = t.layer(x, i, t.layer_norm, quick_gelu, turn=turning(row, column, 16))
    x = t.layer_norm(x, "v.post_ln").reshape(-1, 4 * t.width)
    t.write(t.linear(gelu_erf(t.linear(x, "mm.0", 4 * t.width)), "mm.2", t.out), (4, 6))


def qwen25vl():
    t = Tower("qwen2.5vl", "qwen2.5vl_merger", 16, 4,
              **{"use_silu": True, "vision.n_wa_pattern": 2, "vision.window_size": 16})
    row, column = in_blocks(6, 10, 2)
    groups = row // 4 * 100 + column // 4  # windows of 4 patches each way
    x = t.patches(6, 10, kernels=2, bias=False)
    for i in range(t.layers):
        x = t.layer(x, i, t.rms_norm, silu, turn=turning(row, column, 16), groups=None if i % 2 else groups)
    x = t.rms_norm(x, "v.post_ln").reshape(-1, 4 * t.width)
    t.write(t.linear(gelu_erf(t.linear(x, "mm.0", 4 * t.width)), "mm.2", t.out), (6, 10))


def qwen3vl():
    t = Tower("qwen3vl", "qwen3vl_merger", 16, 4, layers=3,
              **{"use_gelu": True, "vision.spatial_merge_size": 2, "vision.is_deepstack_layers": [True, True, False]})
    row, column = in_blocks(6, 4, 2)
    table = t.w("v.position_embd.weight", 16, t.width, scale=1.0).reshape(4, 4, -1)
    x = t.patches(6, 4, kernels=2)
    y_at, x_at = np.linspace(0, 3, 6)[row], np.linspace(0, 3, 4)[column]
    y0, x0 = np.floor(y_at).astype(int), np.floor(x_at).astype(int)
    y1, x1 = np.minimum(y0 + 1, 3), np.minimum(x0 + 1, 3)
    dy, dx = (y_at - y0)[:, None], (x_at - x0)[:, None]
    x = x + (table[y0, x0] * (1 - dy) * (1 - dx) + table[y0, x1] * (1 - dy) * dx
             + table[y1, x0] * dy * (1 - dx) + table[y1, x1] * dy * dx)
    deep = []
    for i in range(t.layers):
        x = t.layer(x, i, t.layer_norm, gelu, fused=True, turn=turning(row, column, 16))
        if i < 2:
            deepstack = f"v.deepstack.{i}."
            h = t.layer_norm(x.reshape(-1, 4 * t.width), deepstack + "norm")
            deep.append(t.linear(gelu_erf(t.linear(h, deepstack + "fc1", 4 * t.width)), deepstack + "fc2", t.out))
    x = t.layer_norm(x, "v.post_ln").reshape(-1, 4 * t.width)
    x = t.linear(gelu_erf(t.linear(x, "mm.0", 4 * t.width)), "mm.2", t.out)
    t.write(np.concatenate([x, *deep], 1), (6, 4))


def filtered(size, out, cubic, pad=0):
    """The weights of Pillow's resampling: for each of out elements, those of size elements between pad others."""
    scale = (size + 2 * pad) / out
    wide = max(scale, 1)
    reach = (2 if cubic else 1) * wide
    table = np.zeros((out, size))
    for o in range(out):
        middle = (o + 0.5) * scale
        first = max(int(middle - reach + 0.5), 0)
        end = min(int(middle + reach + 0.5), size + 2 * pad)
        w = []
        for i in range(first, end):
            d = abs(i - middle + 0.5) / wide
            if not cubic:
                w.append(max(1 - d, 0))
            elif d < 1:
                w.append((1.5 * d - 2.5) * d * d + 1)
            else:
                w.append(((-0.5 * d + 2.5) * d - 4) * d + 2 if d < 2 else 0)
        for i, one in zip(range(first, end), np.array(w) / sum(w)):
            if pad <= i < pad + size:
                table[o, i - pad] = one
    return table


def resize(width, height, to_width, to_height, cubic, pad=False):
    """Levels of 0 to 255: first across, then down. What is beyond the picture has the mean's color."""
    image = np.array([w & 255 for w in words("image", width * height * 3)], float).reshape(height, width, 3)
    side = max(width, height)
    # The color is subtracted before and added after, so that what is beyond counts as zeros.
    color = np.array([round(255 * m - 0.5) for m in (0.5, 0.25, 0.125)], float) if pad else np.zeros(3)
    beyond = ((side - width) / 2, (side - height) / 2) if pad else (0, 0)
    assert all(b == int(b) for b in beyond)
    across, down = filtered(width, to_width, cubic, int(beyond[0])), filtered(height, to_height, cubic, int(beyond[1]))
    x = np.einsum("ow,hwc->hoc", across, image - color) + color
    x = np.clip(np.floor(x + 0.5), 0, 255)
    x = np.einsum("oh,hwc->owc", down, x - color) + color
    return np.clip(np.floor(x + 0.5), 0, 255).astype(int)


def write_sizes():
    cases = [(13, 9, 8, 8, False, False), (5, 7, 16, 8, True, False), (30, 22, 12, 8, True, False),
             (9, 13, 8, 8, True, True)]
    lines = []
    for width, height, to_width, to_height, cubic, pad in cases:
        levels = resize(width, height, to_width, to_height, cubic, pad)
        lines.append(json.dumps({"from": [width, height], "to": [to_width, to_height], "cubic": cubic, "pad": pad,
                                 "levels": levels.reshape(-1).tolist()}))
    lines += tile_levels()
    Path(__file__).with_name("resize.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def idefics3_size(width, height, edge, side):
    """The size of a picture that is divided into squares: the longer side first, then whole squares."""
    ratio = width / height
    if width >= height:
        w, h = edge, int(edge / ratio)
        h += h % 2
    else:
        w, h = int(edge * ratio), edge
        w += w % 2
    w, h = max(w, 1), max(h, 1)
    ratio = w / h
    if w >= h:
        w = math.ceil(w / side) * side
        h = math.ceil(int(w / ratio) / side) * side
    else:
        h = math.ceil(h / side) * side
        w = math.ceil(int(h * ratio) / side) * side
    return w, h


def idefics3_text(rows, columns):
    text = ""
    for r in range(rows):
        for c in range(columns):
            text += f"<fake_token_around_image><row_{r + 1}_col_{c + 1}>*"
        text += "\n"
    return text + "\n<fake_token_around_image><global-img>*<fake_token_around_image>"


def best_resolution(width, height, sizes):
    best, most, least = None, -1, math.inf
    for w, h in sizes:
        scale = min(w / width, h / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        if kept > most or (kept == most and w * h - kept < least):
            best, most, least = (w, h), kept, w * h - kept
    return best


def padded_size(width, height, to):
    """The size of a picture that keeps its proportions within another size."""
    across, down = to[0] / width, to[1] / height
    if across < down:
        return to[0], min(math.ceil(height * across), to[1])
    return min(math.ceil(width * down), to[0]), to[1]


def llava_rows(width, height, to, side, patch):
    """The rows of a picture: those of the whole, and those of a map of tiles without padding, with -1 ending a row."""
    n = side // patch
    whole, tiles = np.arange(n * n), n * n + np.arange(to[0] // side * (to[1] // side) * n * n)
    grid = tiles.reshape(to[1] // side, to[0] // side, n, n).transpose(0, 2, 1, 3).reshape(to[1] // patch, to[0] // patch)
    rows, columns = grid.shape
    if width / height > columns / rows:
        cut = (rows - int(round(height * (columns / width), 7))) // 2
        grid = grid[cut:rows - cut]
    else:
        cut = (columns - int(round(width * (rows / height), 7))) // 2
        grid = grid[:, cut:columns - cut]
    return np.concatenate([whole, np.pad(grid, ((0, 0), (0, 1)), constant_values=-1).reshape(-1)])


PINPOINTS = [[8, 16], [16, 8], [16, 16], [24, 8], [8, 24]]


def tile_levels():
    lines = []
    for width, height, edge, view in [(13, 9, 20, 1), (9, 13, 20, 3)]:  # levels of squares of 8 pixels
        w, h = idefics3_size(width, height, edge, 8)
        x, y = view % (w // 8) * 8, view // (w // 8) * 8
        levels = resize(width, height, w, h, True).reshape(h, w, 3)[y:y + 8, x:x + 8]
        tile = {"projector": "idefics3", "side": 8, "edge": edge, "view": view, "views": w * h // 64 + 1}
        lines.append(json.dumps({"from": [width, height], "to": [8, 8], "cubic": True, "tile": tile,
                                 "levels": levels.reshape(-1).tolist()}))
    for width, height, view in [(13, 9, 0), (13, 9, 2), (9, 23, 3)]:
        to = best_resolution(width, height, PINPOINTS)
        size = padded_size(width, height, to)
        levels = np.zeros((to[1], to[0], 3), int)
        left, top = (to[0] - size[0]) // 2, (to[1] - size[1]) // 2
        levels[top:top + size[1], left:left + size[0]] = resize(width, height, *size, True).reshape(size[1], size[0], 3)
        tiles = [levels[y:y + 8, x:x + 8] for y in range(0, to[1], 8) for x in range(0, to[0], 8)]
        tiles = [resize(width, height, 8, 8, True).reshape(8, 8, 3)] + tiles
        tile = {"projector": "mlp", "side": 8, "pinpoints": PINPOINTS, "view": view, "views": len(tiles)}
        lines.append(json.dumps({"from": [width, height], "to": [8, 8], "cubic": True, "tile": tile,
                                 "levels": tiles[view].reshape(-1).tolist()}))
    return lines


def write_tiles():
    lines = []
    for width, height, edge, side in [(640, 480, 2048, 512), (480, 640, 1456, 364), (100, 3000, 2048, 512),
                                      (31, 17, 100, 32), (17, 31, 96, 32), (5, 5, 512, 512)]:
        w, h = (side, side) if edge <= side else idefics3_size(width, height, edge, side)
        views, text = (1, "") if edge <= side else (w * h // side**2 + 1, idefics3_text(h // side, w // side))
        lines.append(json.dumps({"projector": "idefics3", "from": [width, height], "edge": edge, "side": side,
                                 "patch": side // 4, "size": [w, h], "views": views, "texts": text}))
    for width, height in [(640, 480), (480, 640), (13, 9), (9, 40), (1, 1), (1000, 200)]:
        to = best_resolution(width, height, PINPOINTS)
        lines.append(json.dumps({"projector": "mlp", "from": [width, height], "side": 8, "patch": 2,
                                 "pinpoints": PINPOINTS, "size": padded_size(width, height, to),
                                 "views": to[0] * to[1] // 64 + 1,
                                 "rows": llava_rows(width, height, to, 8, 2).tolist()}))
    Path(__file__).with_name("tiles.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def llava_feature():
    llava("llava-feature", 3, **{"vision.feature_layer": [2]})


for write in (gemma3, idefics3, llava, llava_feature, qwen2vl, qwen25vl, qwen3vl, write_sizes, write_tiles):
    write()
