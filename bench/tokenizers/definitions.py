"""python3 definitions.py FOLDER: writes vocabularies of the kinds rwkv and gemma4 to FOLDER, made of gemma3's, and the
tokens of FOLDER/texts.jsonl by their definitions: rwkv.ids and gemma4.ids have a line for each text.

rwkv takes repeatedly the longest token, of bytes, that the rest of the text begins with. gemma4 has a blank for a
space. Line feeds next to each other are a word, and so is the text between them. A word is the token of that name if it is of
line feeds alone; otherwise the pair of neighbours that comes first in the list of merges is joined, the leftmost first,
until no pair is in the list. A character that is no token becomes a token for each of its bytes."""

import json
import re
import sys
from pathlib import Path

folder = Path(sys.argv[1])
texts = [json.loads(line) for line in (folder / "texts.jsonl").read_text().split("\n") if line]
source = json.loads((folder / "gemma3" / "tokenizer.json").read_text())
vocabulary = source["model"]["vocab"]
merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in source["model"]["merges"]]


def write(name, encode):
    lines = [json.dumps(encode(text)) for text in texts]
    (folder / (name + ".ids")).write_text("\n".join(lines) + "\n")


def rwkv():
    tokens = [bytes([b]) for b in range(256)]
    seen = set(tokens)
    for name in vocabulary:
        token = name.replace("\u2581", " ").encode()
        for one in (token, token[1:]):  # the second may be no UTF-8
            if 0 < len(one) < 64 and one not in seen and (one is token or len(seen) % 7 == 0):
                seen.add(one)
                tokens.append(one)
    lines = []
    for i, token in enumerate(tokens, 1):
        try:
            literal = repr(token.decode())
        except UnicodeDecodeError:
            literal = repr(token)
        lines.append(f"{i} {literal} {len(token)}")
    (folder / "rwkv").mkdir(exist_ok=True)
    (folder / "rwkv" / "rwkv_vocab_made.txt").write_text("\n".join(lines) + "\n")
    number = {token: i for i, token in enumerate(tokens, 1)}
    longest = max(map(len, tokens))

    def encode(text):
        rest, out = text.encode(), []
        while rest:
            n = next(n for n in range(min(longest, len(rest)), 0, -1) if rest[:n] in number)
            out.append(number[rest[:n]])
            rest = rest[n:]
        return out

    write("rwkv", encode)


def gemma4():
    rank = {pair: i for i, pair in enumerate(merges)}
    keys = {"tokens": [None] * (max(vocabulary.values()) + 1), "merges": [" ".join(m) for m in merges]}
    for name, i in vocabulary.items():
        keys["tokens"][i] = name
    (folder / "gemma4").mkdir(exist_ok=True)
    (folder / "gemma4" / "keys.json").write_text(json.dumps(keys))

    def encode(text):
        out = []
        for word in re.findall(r"\n+|[^\n]+", text.replace(" ", "\u2581")):
            if word[0] == "\n" and word in vocabulary:
                out.append(vocabulary[word])
                continue
            parts = list(word)
            while len(parts) > 1:
                best = min(range(len(parts) - 1), key=lambda i: rank.get((parts[i], parts[i + 1]), len(rank)))
                if (parts[best], parts[best + 1]) not in rank:
                    break
                parts[best:best + 2] = [parts[best] + parts[best + 1]]
            for part in parts:
                if part in vocabulary:
                    out.append(vocabulary[part])
                else:
                    out += [vocabulary[f"<0x{b:02X}>"] for b in part.encode()]
        return out

    write("gemma4", encode)


rwkv()
gemma4()
