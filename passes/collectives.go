package passes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
)

// Collectives are ops of programs that several devices run together, each on its shard of the values. A device gives
// its values to memory where all of them meet (package mailbox), and a collective takes what all have given there. A
// link says where the memory is; each op gives the link that the next one takes, so that all devices come to them in
// one order. They are custom ops: no family of kernels knows of other devices.
//
// Words of the memory say by themselves of which exchange they are, so who takes may wait for them inside of a kernel:
// in the same memory, or in one of its own to which the host copies them. Or else the runtime ends the program between
// both ops. A workgroup waits for words that were given by the workgroup of its own number. Without a memory, as when a
// program is warmed up, a link is all zeros, and others count as zeros.
var give = ir.MustRegisterCustom(ir.CustomOp{
	Name: "vkc.give", Doc: "Gives the values of a device to the others, and has the link with which they are taken.",
	Args:  []ir.ArgInfo{{Name: "x"}, {Name: "link"}},
	Attrs: collectiveAttrs,
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		return []ir.Type{{DType: ir.U32, Shape: linkShape}}, checkCollective(c)
	},
	Kernel: collectiveKernel([]string{"given"}, giveBody),
	Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) {
		return args[1:2], mailbox.Give(toWords(args[1].Bytes), toWords(args[0].Bytes))
	},
})

var (
	allReduce = collective("all_reduce", "The sum of what all devices have, added in the order of their ranks.",
		"", "sum[k] = p == 0u ? part : sum[k] + part;", "y[i] = sum[k];",
		func(s ir.Shape, _ int64) (ir.Shape, error) { return s, nil },
		func(all [][]uint32, _ int) []uint32 { return sumWords(all) })
	allGather = collective("all_gather",
		"What all devices have, along a new outermost axis in the order of their ranks.",
		"", "if (i < end) y[p * size + i] = part;", "",
		func(s ir.Shape, shards int64) (ir.Shape, error) {
			return append(ir.Shape{{Add: shards}}, s...), nil
		},
		func(all [][]uint32, _ int) []uint32 { return slices.Concat(all...) })
	_ = collective("reduce_scatter",
		"A device's part, along the outermost axis, of the sum of what all have.",
		"uint mine = size / uint(shards);", "sum[k] = p == 0u ? part : sum[k] + part;",
		"if (i / mine == rank) y[i - rank * mine] = sum[k];",
		func(s ir.Shape, shards int64) (ir.Shape, error) {
			if len(s) == 0 || !s[0].IsStatic() || s[0].Add%shards != 0 {
				return nil, fmt.Errorf("x is %s: want an outermost axis that %d divides", s, shards)
			}
			return append(ir.Shape{{Add: s[0].Add / shards}}, s[1:]...), nil
		},
		func(all [][]uint32, rank int) []uint32 {
			sum := sumWords(all)
			mine := len(sum) / len(all)
			return sum[rank*mine : (rank+1)*mine]
		})
)

const (
	collectiveLanes = 256
	collectiveDepth = 4 // words that an invocation waits for at once
)

// collective registers one: prologue, what is done with each part, in the order of ranks, and with what came of it.
func collective(name, doc, prologue, each, result string, shape func(ir.Shape, int64) (ir.Shape, error),
	combine func(all [][]uint32, rank int) []uint32) ir.Op {
	body := strings.NewReplacer("PROLOGUE", prologue, "EACH", each, "RESULT", result).Replace(collectiveBody)
	return ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc." + name, Doc: doc,
		Args:  []ir.ArgInfo{{Name: "x"}, {Name: "link"}},
		Attrs: collectiveAttrs,
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			if err := checkCollective(c); err != nil {
				return nil, err
			}
			s, err := shape(c.Shape(0), int64(c.Attrs.Int("shards")))
			return []ir.Type{{DType: ir.F32, Shape: s}, {DType: ir.U32, Shape: linkShape}}, err
		},
		Kernel: collectiveKernel([]string{"y", "next"}, body),
		Reference: func(args []*ir.Data, a ir.Attrs) ([]*ir.Data, error) {
			return exchange(args[0], args[1], a.Int("shards"), shape, combine)
		},
	})
}

var collectiveAttrs = []ir.AttrInfo{{Name: "shards", Kind: ir.AttrInt, Doc: "how many devices there are"}}

func collectiveKernel(outputs []string, body string) *ir.CustomKernel {
	return &ir.CustomKernel{
		Outputs: outputs, Workgroup: [3]int{collectiveLanes},
		Grid:  [3][]ir.GridRule{{{Of: "x", Axis: ir.AllAxes, Tile: collectiveLanes * collectiveDepth}}},
		Needs: []string{"int64", "bufferDeviceAddress"}, Shared: collectiveShared, Body: collectiveStart + body,
	}
}

func checkCollective(c *ir.Call) error {
	switch shards := c.Attrs.Int("shards"); {
	case shards < 2 || shards > mailbox.MaxRanks:
		return fmt.Errorf("%d shards: want 2 to %d", shards, mailbox.MaxRanks)
	case c.DType(0) != ir.F32:
		return fmt.Errorf("x is %s: want f32", c.DType(0))
	case c.DType(1) != ir.U32 || !c.Shape(1).Equal(linkShape):
		return errors.New("link is u32[9], from an input or from another of these ops")
	}
	return nil
}

var linkShape = ir.ShapeOf(mailbox.LinkWords)

// The memory changes while a kernel reads it, which volatile says.
const collectiveShared = `layout(buffer_reference, std430, buffer_reference_align = 8) coherent volatile
buffer Mailbox { uint64_t words[]; };
float await_word(Mailbox inbox, Mailbox box, uint at, uint epoch, uint rank, uint most) {
    for (uint tries = 1u; tries <= most; ++tries) {
        uvec2 word = unpackUint2x32(inbox.words[at]);
        if (word.y == epoch) return uintBitsToFloat(word.x);
        if ((tries & 255u) == 0u && inbox.words[0] != 0ul) break;
    }
    box.words[1u + rank] = uint64_t(epoch);
    return 0.0;
}`

const collectiveStart = `uint lane = gl_LocalInvocationID.x, epoch = link[2], rank = link[3], slot = link[4];
uint size = x_size, begin = gl_WorkGroupID.x * 1024u + lane, end = min(size, gl_WorkGroupID.x * 1024u + 1024u);
Mailbox box = Mailbox(packUint2x32(uvec2(link[0], link[1])));
bool open = (link[0] | link[1]) != 0u;
uint first = 192u + (epoch & 1u) * uint(shards) * slot;
`

const giveBody = `if (gl_WorkGroupID.x == 0u && lane < 9u) given[lane] = link[lane];
if (open) {
    if (gl_WorkGroupID.x == 0u && lane == 0u) {
        box.words[64u + 64u * (epoch & 1u) + rank] = packUint2x32(uvec2(size, epoch));
    }
    for (uint i = begin; i < end; i += 256u) {
        box.words[first + rank * slot + i] = packUint2x32(uvec2(floatBitsToUint(x[i]), epoch));
    }
}`

const collectiveBody = `if (gl_WorkGroupID.x == 0u && lane < 9u) next[lane] = lane == 2u ? epoch + 1u : link[lane];
PROLOGUE
Mailbox inbox = Mailbox(packUint2x32(uvec2(link[7], link[8])));
float own[4], sum[4];
[[unroll]] for (uint k = 0u; k < 4u; ++k) {
    uint i = begin + 256u * k;
    own[k] = i < end ? x[i] : 0.0;
    sum[k] = 0.0;
}
for (uint p = 0u; p < uint(shards); ++p) {
    uint64_t seen[4];
    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
        uint i = begin + 256u * k;
        seen[k] = open && p != rank && i < end ? inbox.words[first + p * slot + i] : 0ul;
    }
    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
        uint i = begin + 256u * k;
        float part = own[k];
        if (p != rank) {
            uvec2 word = unpackUint2x32(seen[k]);
            part = uintBitsToFloat(word.x);
            if (open && i < end && word.y != epoch) {
                part = await_word(inbox, box, first + p * slot + i, epoch, rank, link[6]);
            }
        }
        EACH
    }
}
[[unroll]] for (uint k = 0u; k < 4u; ++k) {
    uint i = begin + 256u * k;
    if (i < end) {
        RESULT
    }
}`

// exchange is the reference of a collective.
func exchange(x, link *ir.Data, shards int, shape func(ir.Shape, int64) (ir.Shape, error),
	combine func(all [][]uint32, rank int) []uint32) ([]*ir.Data, error) {
	at := toWords(link.Bytes)
	all, err := mailbox.Take(at, toWords(x.Bytes))
	if err != nil {
		return nil, err
	}
	if len(all) != shards {
		return nil, fmt.Errorf("%d devices meet: want %d", len(all), shards)
	}
	s, err := shape(ir.ShapeOf(x.Dims...), int64(shards))
	if err != nil {
		return nil, err
	}
	dims, err := s.Eval(nil)
	if err != nil {
		return nil, err
	}
	next := slices.Clone(at)
	next[2]++
	return []*ir.Data{{DType: ir.F32, Dims: dims, Bytes: fromWords(combine(all, int(at[3])))},
		{DType: ir.U32, Dims: link.Dims, Bytes: fromWords(next)}}, nil
}

// sumWords adds up floats, in the order of ranks.
func sumWords(all [][]uint32) []uint32 {
	sum := slices.Clone(all[0])
	for _, part := range all[1:] {
		for i, v := range part {
			sum[i] = math.Float32bits(math.Float32frombits(sum[i]) + math.Float32frombits(v))
		}
	}
	return sum
}

func toWords(b []byte) []uint32 {
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return words
}

func fromWords(words []uint32) []byte {
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// Swaps is a graph of several devices that exchanges input "x", some values of f32, so many times: output "y" is what
// all have, added up and a device's own taken off, again and again. Its link is input "link".
func Swaps(shards, values, times int) (*ir.Graph, error) {
	g := ir.NewGraph("swaps")
	attr := func(name string, v any) ir.Attr { return ir.Attr{Name: name, Value: v} }
	var err error
	add := func(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
		var n *ir.Node
		if err == nil {
			n, err = g.Add(op, args, attrs, "")
		}
		return n
	}
	x := add(ir.OpInput, nil, attr("name", "x"), attr("dtype", ir.F32), attr("shape", ir.ShapeOf(values)))
	link := add(ir.OpInput, nil, attr("name", "link"), attr("dtype", ir.U32), attr("shape", linkShape))
	of := attr("shards", int64(shards))
	for range times {
		given := add(give, []*ir.Node{x, link}, of)
		sum := add(allReduce, []*ir.Node{x, given}, of, attr("output", int64(0)))
		link = add(allReduce, []*ir.Node{x, given}, of, attr("output", int64(1)))
		x = add(ir.OpSub, []*ir.Node{sum, x})
	}
	if err == nil {
		err = g.Output("y", x)
	}
	return g, err
}
