package partition

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
)

// Collectives are ops in which several devices exchange values, such as all_reduce. A device writes its values to
// memory that all devices share, and a collective reads the values of all devices. Package internal/mailbox defines the
// layout of that memory, the mailbox. A link is a small tensor (u32[12]) with the mailbox's addresses and the number of
// the next exchange, the epoch. Each op returns the link for the next op, so that all devices execute them in the same
// order. Collectives are custom ops, since no kernel family supports several devices.
//
// Op give writes a device's values; another kernel reads. Every workgroup of the reading kernel waits for flags, which
// say that the other devices have written. The flags are in the shared memory, or the host copies them to the device's
// own memory. The reading kernel sets its own device's flag: when it runs, the writing kernel has ended. If devices
// cannot wait for each other, the runtime ends the program between write and read instead. When a program is warmed up
// there is no mailbox. The link is then all zeros, and the values of other devices count as zeros.
//
// If kernels can wait, a single kernel (such as all_reduce_few) writes and reads a small value. Each workgroup has a
// flag of its own and waits for the workgroups with the same number on the other devices. At most
// mailbox.MaxGroups workgroups take part, which any device runs at the same time.
var give = ir.MustRegisterCustom(ir.CustomOp{
	Name: "vkc.give", Doc: "Gives the values of a device to the others, and has the link with which they are taken.",
	Args:  []ir.ArgInfo{{Name: "x"}, {Name: "link"}},
	Attrs: collectiveAttrs,
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		return []ir.Type{{DType: ir.U32, Shape: linkShape}}, checkCollective(c)
	},
	Kernel: collectiveKernel([]string{"given"}, "copy_link", "give"),
	Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) {
		return args[1:2], mailbox.Give(toWords(args[1].Bytes), toWords(args[0].Bytes))
	},
})

var (
	allReduce, allReduceFew = collective("all_reduce",
		"The sum of what all devices have, added in the order of their ranks.",
		"", "sum[k] = p == 0u ? part : sum[k] + part;", "y[i] = sum[k];",
		func(s ir.Shape, _ int64) (ir.Shape, error) { return s, nil },
		func(all [][]uint32, _ int) []uint32 { return sumWords(all) })
	allGather, allGatherFew = collective("all_gather",
		"What all devices have, along a new outermost axis in the order of their ranks.",
		"", "if (has) y[p * size + i] = part;", "",
		func(s ir.Shape, shards int64) (ir.Shape, error) {
			return append(ir.Shape{{Add: shards}}, s...), nil
		},
		func(all [][]uint32, _ int) []uint32 { return slices.Concat(all...) })
	_, _ = collective("reduce_scatter",
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

// The grid of a collective: invocations per workgroup, and values per workgroup. A workgroup moves 1024 words of a
// slot, 4 per invocation, and every 8th word is an epoch instead of a value.
const (
	collectiveLanes  = 256
	collectiveValues = 1024 / 8 * 7
)

// collective registers a collective in two variants: op reads values that op give has written, few writes and reads a
// small value itself. prologue, each and result are GLSL code that runs at the start, for the value of each device in
// the order of ranks, and at the end. shape returns the shape of the result, and combine is the Go reference.
func collective(name, doc, prologue, each, result string, shape func(ir.Shape, int64) (ir.Shape, error),
	combine func(all [][]uint32, rank int) []uint32) (op, few ir.Op) {
	fill := strings.NewReplacer("PROLOGUE", prologue, "EACH", each, "RESULT", result)
	register := func(name, doc string, gives bool, parts ...string) ir.Op {
		k := collectiveKernel([]string{"y", "next"}, parts...)
		k.Body = fill.Replace(k.Body)
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
			Kernel: k,
			Reference: func(args []*ir.Data, a ir.Attrs) ([]*ir.Data, error) {
				if gives { // otherwise op give has written the values
					if err := mailbox.Give(toWords(args[1].Bytes), toWords(args[0].Bytes)); err != nil {
						return nil, err
					}
				}
				return exchange(args[0], args[1], a.Int("shards"), shape, combine)
			},
		})
	}
	return register(name, doc, false, "wait", "take"),
		register(name+"_few", doc+" Few values, which the op gives as well.", true, "give", "wait_few", "take")
}

var collectiveAttrs = []ir.AttrInfo{{Name: "shards", Kind: ir.AttrInt, Doc: "number of devices"}}

// collectiveKernel returns the GLSL kernel of a collective op with the given outputs. Its body is the part "start" of
// collectives.glsl and then the named parts.
func collectiveKernel(outputs []string, names ...string) *ir.CustomKernel {
	body := collectiveParts["start"]
	for _, name := range names {
		body += "\n" + collectiveParts[name]
	}
	return &ir.CustomKernel{
		Outputs: outputs, Workgroup: [3]int{collectiveLanes},
		Grid:  [3][]ir.GridRule{{{Of: "x", Axis: ir.AllAxes, Tile: collectiveValues}}},
		Needs: []string{"int64", "bufferDeviceAddress"}, Shared: collectiveParts["shared"], Body: body,
	}
}

// checkCollective checks the arguments and attributes of a collective op.
func checkCollective(c *ir.Call) error {
	switch shards := c.Attrs.Int("shards"); {
	case shards < 2 || shards > mailbox.MaxRanks:
		return fmt.Errorf("%d shards: want 2 to %d", shards, mailbox.MaxRanks)
	case c.DType(0) != ir.F32:
		return fmt.Errorf("x is %s: want f32", c.DType(0))
	case c.DType(1) != ir.U32 || !c.Shape(1).Equal(linkShape):
		return errors.New("link is u32[12], from an input or from another of these ops")
	}
	return nil
}

var linkShape = ir.ShapeOf(mailbox.LinkWords)

// fewValues is the largest number of values that a single kernel writes and reads: each of its workgroups needs a flag.
const fewValues = mailbox.MaxGroups * collectiveValues

//go:embed collectives.glsl
var collectiveFile string

// collectiveParts has the parts of collectives.glsl by name. Empty lines separate each part from the comment above it,
// which begins with the name.
var collectiveParts = partsOf(strings.Split(strings.TrimSpace(collectiveFile), "\n\n"))

// partsOf returns a map of GLSL by name, given comments that each precede their GLSL.
func partsOf(list []string) map[string]string {
	parts := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		name, _, _ := strings.Cut(list[i], ":")
		parts[strings.TrimPrefix(name, "// ")] = list[i+1]
	}
	return parts
}

// exchange is the Go reference of a collective: it waits for the values of all devices and combines them.
func exchange(x, link *ir.Data, shards int, shape func(ir.Shape, int64) (ir.Shape, error),
	combine func(all [][]uint32, rank int) []uint32) ([]*ir.Data, error) {
	at := toWords(link.Bytes)
	all, err := mailbox.Take(at, toWords(x.Bytes))
	if err != nil {
		return nil, err
	}
	if len(all) != shards {
		return nil, fmt.Errorf("%d devices take part: want %d", len(all), shards)
	}
	s, err := shape(ir.ShapeOf(x.Dims...), int64(shards))
	if err != nil {
		return nil, err
	}
	dims, err := s.Eval(nil)
	if err != nil {
		return nil, err
	}
	next, err := mailbox.Next(at, len(x.Bytes)/4)
	if err != nil {
		return nil, err
	}
	return []*ir.Data{{DType: ir.F32, Dims: dims, Bytes: fromWords(combine(all, int(at[mailbox.LinkRank])))},
		{DType: ir.U32, Dims: link.Dims, Bytes: fromWords(next)}}, nil
}

// sumWords adds up the floats of all devices, in the order of ranks like the kernels. all has their bits by rank.
func sumWords(all [][]uint32) []uint32 {
	sum := slices.Clone(all[0])
	for _, part := range all[1:] {
		for i, v := range part {
			sum[i] = math.Float32bits(math.Float32frombits(sum[i]) + math.Float32frombits(v))
		}
	}
	return sum
}

// toWords returns bytes as little-endian 32-bit words.
func toWords(b []byte) []uint32 {
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return words
}

// fromWords returns the bytes of 32-bit words, from which toWords reads them.
func fromWords(words []uint32) []byte {
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// ProbeGraph returns a graph with which a group of devices probes a transport. It has inputs "x", f32[values], and
// "link", and output "y". It replaces x by the sum of the other devices' x, `times` times: each time it adds the
// values of all devices and subtracts its own.
func ProbeGraph(shards, values, times int) (*ir.Graph, error) {
	g := ir.NewGraph("swaps")
	var err error
	add := func(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
		var n *ir.Node
		if err == nil { // after an error, the rest adds nothing
			n, err = g.Add(op, args, attrs, "")
		}
		return n
	}
	x := add(ir.OpInput, nil, attr("name", "x"), attr("dtype", ir.F32), attr("shape", ir.ShapeOf(values)))
	link := add(ir.OpInput, nil, attr("name", "link"), attr("dtype", ir.U32), attr("shape", linkShape))
	of, op := attr("shards", int64(shards)), allReduceFew
	for range times {
		if values > fewValues {
			op, link = allReduce, add(give, []*ir.Node{x, link}, of)
		}
		sum := add(op, []*ir.Node{x, link}, of, attr("output", int64(0)))
		link = add(op, []*ir.Node{x, link}, of, attr("output", int64(1)))
		x = add(ir.OpSub, []*ir.Node{sum, x})
	}
	if err == nil {
		err = g.Output("y", x)
	}
	return g, err
}
