"""Cases of products with matrices that ids pick, and of grouping by id."""

import numpy as np

from support import case, ints, normal


def picked(x, weights, ids):
    ids = np.clip(ids, 0, len(weights) - 1)
    rows = np.broadcast_to(x, (x.shape[0], ids.shape[1], x.shape[2]))
    return np.einsum("tuk,tunk->tun", rows, weights[ids])


def groups(experts, rows):
    def table(ids):
        ids = np.clip(ids.ravel(), 0, experts - 1)
        count = (ids.size + (rows - 1) * min(experts, ids.size)) // rows
        out = np.full((count, 1 + rows), -1)
        g = 0
        for e in range(experts):
            places = np.flatnonzero(ids == e)
            for i in range(0, len(places), rows):
                out[g, 0], out[g, 1 : 1 + len(places[i : i + rows])] = e, places[i : i + rows]
                g += 1
        return out

    return table


def experts():
    w = normal(3, 4, 5)
    case("matmul_id", [(normal(2, 2, 5), "f32"), (w, "f32"), (np.array([[0, 2], [1, 1]]), "i32")], picked)
    case("matmul_id", [(normal(3, 1, 5), "f16"), (w, "f16"), (np.array([[2, 1], [1, 2], [0, 0]]), "i64")], picked)
    case("matmul_id", [(normal(1, 1, 5), "bf16"), (w, "bf16"), (np.array([[2]]), "i32")], picked)
    for count, n, rows in ((11, 3, 2), (9, 20, 4), (0, 2, 2), (7, 1, 3)):
        case("expert_groups", [(ints(-1, n, count), "i32")], groups(n, rows), "i32", experts=n, rows=rows)
