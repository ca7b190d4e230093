package view

import "github.com/vkc-go/vkc/codegen/kernel"

// Record is what the page shows. Texts that repeat, such as dtypes with shapes, are stored once in Strings. A Ref is an
// index into it.
type Record struct {
	Title   string   `json:"title"`
	Target  string   `json:"target"`
	Strings []string `json:"strings"`
	Passes  []Pass   `json:"passes"`
	// Graphs has each different graph once. The graphs of loop bodies follow the graph that they belong to.
	Graphs    []Graph    `json:"graphs"`
	Kernels   []Kernel   `json:"kernels"` // the steps of the program, in order
	Shaders   []Shader   `json:"shaders"`
	Decisions []Decision `json:"decisions"`
	Buffers   []Buffer   `json:"buffers"`
	// Arena is the size of the allocation that temporaries share. Apart is the sum of their sizes.
	Arena int64 `json:"arena"`
	Apart int64 `json:"apart"`
	Runs  []Run `json:"runs"`
}

// Ref is an index into Record.Strings. Ref 0 is "".
type Ref int

// Pass is a pass that has run.
type Pass struct {
	Name    string `json:"name"`
	Why     string `json:"why"`
	Nanos   int64  `json:"ns"`
	Changed bool   `json:"changed"`
	// Before and After are indices of graphs.
	Before int `json:"before"`
	After  int `json:"after"`
	// Removed lists the nodes of Before that After does not have, and Added the reverse.
	Removed []int `json:"removed,omitempty"`
	Added   []int `json:"added,omitempty"`
}

// GraphKind says what the nodes of a graph are.
type GraphKind string

// The kinds of graphs.
const (
	OpGraph     GraphKind = "ops"     // nodes are ops
	KernelGraph GraphKind = "kernels" // nodes are kernels, and the inputs, weights and states that they read
)

// Graph is a program after some pass. Each node comes after its arguments.
type Graph struct {
	Kind   GraphKind `json:"kind"`
	Nodes  []Node    `json:"nodes"`
	Groups []Group   `json:"groups,omitempty"`
}

// Node is an op, a kernel, or a value from outside.
type Node struct {
	Op    Ref   `json:"o"`
	Type  Ref   `json:"t,omitempty"`
	Attrs Ref   `json:"x,omitempty"`
	Name  Ref   `json:"n,omitempty"` // of an input, weight or state
	Pos   Ref   `json:"p,omitempty"` // where the user's program made it
	In    Ref   `json:"k,omitempty"` // the kernel that has it, or "inline"
	Why   Ref   `json:"w,omitempty"` // why it is stored or inline
	Out   Ref   `json:"e,omitempty"` // the outputs and states that it is the value of
	Args  []int `json:"a,omitempty"` // indices of nodes
	Leaf  bool  `json:"l,omitempty"` // it has no arguments and is not computed
	Dead  bool  `json:"d,omitempty"` // no output or state needs it
	Step  int   `json:"s,omitempty"` // of a kernel of the last graph: 1 + its index in Record.Kernels
	Body  int   `json:"b,omitempty"` // of a loop: index of the graph of its body
	Fixed bool  `json:"f,omitempty"` // a weight or constant
}

// Group is a range of nodes that repeats. The copies follow each other, and have Size computed nodes each.
type Group struct {
	Size   int      `json:"size"`
	Starts []int    `json:"starts"` // the first node of each copy, and at the end the first node after the last copy
	Names  []string `json:"names"`  // of each copy, such as blk.0
}

// Kernel is a step of the program.
type Kernel struct {
	Name     string   `json:"name"`
	Family   string   `json:"family"`
	Ops      []string `json:"ops"`
	Nodes    []int    `json:"nodes,omitempty"`  // of the last graph of ops: the nodes that it computes
	Stored   []int    `json:"stored,omitempty"` // the members of Nodes that it stores
	Schedule string   `json:"schedule"`
	Reason   string   `json:"reason,omitempty"` // why the schedule was chosen
	Grid     string   `json:"grid"`
	Shader   int      `json:"shader"`
	Flops    int64    `json:"flops"`
	Moved    int64    `json:"moved"`
	// Price is the expected time in nanoseconds with all symbols at their bounds, or 0 if there is no estimate.
	Price   float64 `json:"price,omitempty"`
	Barrier bool    `json:"barrier,omitempty"`
	Once    bool    `json:"once,omitempty"` // it runs once, when the program is loaded
	Binds   []Bind  `json:"binds"`
	// Decisions are the indices of the decisions about this kernel.
	Decisions []int  `json:"decisions,omitempty"`
	Text      string `json:"text"` // the kernel before anything is decided about the device
}

// Bind is a buffer of a kernel.
type Bind struct {
	Buffer int  `json:"buffer"`
	Write  bool `json:"write,omitempty"`
	Read   bool `json:"read,omitempty"`
}

// Shader is a GLSL source, which several kernels may share.
type Shader struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	// Lines has the ops that each line of Source computes.
	Lines []Ref `json:"lines"`
}

// Decision is a proposal of a rule, with the expected nanoseconds before and after it.
type Decision struct {
	Rule   string   `json:"rule"`
	Kernel string   `json:"kernel"` // its name at that time
	What   string   `json:"what"`
	Of     []string `json:"of,omitempty"` // the weights that it reads, or else its inputs and states
	Before float64  `json:"before,omitempty"`
	After  float64  `json:"after,omitempty"`
	Margin float64  `json:"margin,omitempty"` // Before must exceed Margin times After
	Taken  bool     `json:"taken,omitempty"`
	Note   string   `json:"note,omitempty"`
}

// Buffer is a buffer of the program.
type Buffer struct {
	Kind   kernel.BufferKind `json:"kind"`
	Name   string            `json:"name"`
	Type   Ref               `json:"type"`
	Bytes  int64             `json:"bytes"`
	Offset int64             `json:"offset,omitempty"` // of a temporary, in the arena
	// First and Last are the first and last step that may access it, with all steps that may run at the same time. Both
	// are -1 if no step accesses it.
	First int `json:"first"`
	Last  int `json:"last"`
}

// Run is a run of a program, as vkc run --trace writes it.
type Run struct {
	Name  string `json:"name"`
	File  string `json:"file"`
	Lanes []Lane `json:"lanes"`
}

// Lane is what the host or the device did during a run.
type Lane struct {
	Name  string `json:"name"`
	Spans []Span `json:"spans"`
}

// Span is a span of time in a run, in microseconds from the start of the trace.
type Span struct {
	Name  string         `json:"name"`
	Start float64        `json:"start"`
	Took  float64        `json:"took"`
	Args  map[string]any `json:"args,omitempty"`
}
