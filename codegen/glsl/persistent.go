package glsl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Phase is a kernel that a persistent one has as a part.
type Phase struct {
	Shader *Shader
	Slots  []int     // what its bindings are among those of the persistent kernel
	Grid   [3]uint32 // the workgroups that it asks for
}

// Persistent writes the shader of a [kernel.Persistent] that is dispatched as so many workgroups: phases one after the
// other, each of which may need what those before it wrote. changes says in the memory of which bindings a phase
// writes. Two more bindings follow them: the counters, and the word for waiting in vain.
//
// A phase is a function that a workgroup calls for each workgroup of the phase that it takes. Names that two phases
// have for different things get a number. Memory that changes is not private to an invocation: others read and write
// it.
func Persistent(name string, phases []Phase, changes []bool, groups int) (*Shader, error) {
	first := phases[0].Shader
	for i, p := range phases {
		if one := p.Shader; one.parts.main == nil || one.Workgroup != first.Workgroup ||
			one.SubgroupSize != first.SubgroupSize {
			return nil, fmt.Errorf("persistent kernel %s: phase %d has a text of its own, or workgroups or subgroups "+
				"of another size than the first", name, i)
		}
	}
	w := newPhaseWriter(phases, changes, groups)
	about := fmt.Sprintf("// %s: %d kernels in one dispatch of %d workgroups, which wait for one another between "+
		"them.\n", name, len(phases), groups)
	meet, leave, counters := w.meeting()
	sh := &Shader{Grid: kernel.Grid{{{Extent: ir.D(groups), Tile: 1}}}, Workgroup: first.Workgroup,
		SubgroupSize: first.SubgroupSize, Needs: []string{NeedMemoryModel}}
	var main []syntax.Stmt
	for i, p := range phases {
		if i > 0 {
			main = append(main, statements("%s(%du);", meet, i*groups)...)
		}
		main = append(main, w.add(i, p)...)
		about += fmt.Sprintf("//\n// %d.%s", i+1, strings.TrimPrefix(p.Shader.parts.about, "//"))
		sh.Needs = append(sh.Needs, p.Shader.Needs...)
		sh.SharedBytes += p.Shader.SharedBytes
	}
	slices.Sort(sh.Needs)
	sh.Needs = slices.Compact(sh.Needs)
	main = append(main, statements("%s();", leave)...)
	w.parts.main = &syntax.Definition{Type: "void", Name: "main", Body: main}
	w.parts.about = about
	w.parts.buffers = append(w.parts.buffers, counters...)
	w.parts.extensions = append(w.parts.extensions, "#extension "+needs[NeedMemoryModel].extension+" : require\n",
		"#pragma use_vulkan_memory_model\n")
	sh.parts = w.parts
	sh.Source = sh.parts.text(sh.Workgroup)
	return sh, nil
}

// waiting are the functions of a persistent kernel by which its workgroups wait. They give up after 2^22 looks, which
// take seconds: Vulkan does not promise that all workgroups of a dispatch are executed at a time.
var waiting = []string{`// Waits until the workgroups have been here count times in all, and sees what they wrote before.
void MEET(uint count) {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, BUFFERS | gl_StorageSemanticsShared, BOTH_WAYS);
    if (gl_LocalInvocationIndex == 0u) {
        memoryBarrier(gl_ScopeQueueFamily, BUFFERS, gl_SemanticsRelease | gl_SemanticsMakeAvailable);
        atomicAdd(MEETING[0], 1u);
        for (uint looks = 0u; atomicLoad(MEETING[0], gl_ScopeQueueFamily, 0, 0) < count; ++looks) {
            if (looks == 4194304u) { // nobody waits any more
                atomicOr(MEETING[0], 0x80000000u);
                LATE[0] = 1u;
            }
        }
        memoryBarrier(gl_ScopeQueueFamily, BUFFERS, gl_SemanticsAcquire | gl_SemanticsMakeVisible);
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, BUFFERS | gl_StorageSemanticsShared, BOTH_WAYS);
}
`, `// The last workgroup leaves the counters as it found them.
void LEAVE() {
    if (gl_LocalInvocationIndex == 0u && atomicAdd(MEETING[1], 1u) == LAST) {
        MEETING[0] = 0u;
        MEETING[1] = 0u;
    }
}
`}

// statements reads statements of this file.
func statements(format string, args ...any) []syntax.Stmt {
	list, err := syntax.Format(format, args...)
	if err != nil {
		panic(err)
	}
	return list
}

// phaseWriter puts the texts of phases together.
type phaseWriter struct {
	parts      parts
	changes    []bool
	groups     int             // workgroups of the dispatch
	taken      map[string]bool // names that stand anywhere in a phase
	texts      map[string]bool // what is declared for all phases
	signatures map[string]bool // of that
	at, of     string          // the parameters of a phase: which workgroup it is, and how many there are
	id         string          // the invocation among those of the phase
}

func newPhaseWriter(phases []Phase, changes []bool, groups int) *phaseWriter {
	w := &phaseWriter{changes: changes, groups: groups, taken: map[string]bool{}, texts: map[string]bool{},
		signatures: map[string]bool{}}
	for _, p := range phases {
		syntax.EachName(p.Shader.Source, func(name string) { w.taken[name] = true })
	}
	w.at, w.of, w.id = w.fresh("workgroup"), w.fresh("workgroups"), w.fresh("invocation")
	return w
}

// fresh returns a name like base that stands nowhere, and takes it.
func (w *phaseWriter) fresh(base string) string {
	name := base
	for n := 2; w.taken[name] || unusable(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	w.taken[name] = true
	return name
}

// meeting defines the functions in which workgroups wait and end, and returns them with the buffers that they wait by.
func (w *phaseWriter) meeting() (meet, leave string, counters []view) {
	meet, leave = w.fresh("meet"), w.fresh("leave")
	meeting, late := w.fresh("meeting"), w.fresh("late")
	for i, name := range []string{meeting, late} {
		counters = append(counters, view{&buffer{slot: len(w.changes) + i}, array{typ: "uint", name: name}})
	}
	names := strings.NewReplacer("MEETING", meeting, "LATE", late, "MEET", meet, "LEAVE", leave,
		"BUFFERS", "gl_StorageSemanticsBuffer", "BOTH_WAYS",
		"gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible",
		"LAST", fmt.Sprintf("%du", w.groups-1))
	for _, f := range waiting {
		d, err := syntax.ParseDefinition(names.Replace(f))
		if err != nil {
			panic(err)
		}
		w.parts.functions = append(w.parts.functions, d)
	}
	return meet, leave, counters
}

// add takes a phase into the text, and returns the statements that execute it.
func (w *phaseWriter) add(number int, p Phase) []syntax.Stmt {
	from := p.Shader.parts
	w.parts.extensions = union(w.parts.extensions, from.extensions)
	w.parts.modes = union(w.parts.modes, from.modes)
	if !strings.Contains(w.parts.macros, from.macros) {
		w.parts.macros += from.macros
	}
	from.buffers = w.bound(from.buffers, p.Slots)
	names := w.conflicts(from)
	names["gl_WorkGroupID"], names["gl_NumWorkGroups"], names["gl_GlobalInvocationID"] = w.at, w.of, w.id
	from = from.renamed(names)
	for _, v := range from.buffers {
		if w.declare(v) {
			w.parts.buffers = append(w.parts.buffers, v)
		}
	}
	for _, s := range from.shared {
		if w.declare(s) {
			w.parts.shared = append(w.parts.shared, s)
		}
	}
	for _, f := range from.functions {
		if w.declare(function{f}) {
			w.parts.functions = append(w.parts.functions, f)
		}
	}
	phase := *from.main
	phase.Name = w.fresh(fmt.Sprintf("phase_%d", number+1))
	if phase.Mentions(w.id) {
		phase.Body = append(statements("uvec3 %s = %s * gl_WorkGroupSize + gl_LocalInvocationID;", w.id, w.at),
			phase.Body...)
	}
	var args func(n string) string
	args, phase.Params = w.arguments(&phase, p.Grid)
	w.parts.functions = append(w.parts.functions, &phase)
	return w.calls(func(n string) string { return phase.Name + "(" + args(n) + ");" }, p.Grid)
}

// arguments returns what a phase is given, as far as it reads that: its workgroup, of which args makes an argument
// from the workgroup's number, and how many there are.
func (w *phaseWriter) arguments(phase *syntax.Definition, grid [3]uint32) (args func(n string) string,
	params []syntax.Param) {
	var made []func(n string) string
	if phase.Mentions(w.at) {
		params = append(params, syntax.Param{Type: "uvec3", Name: w.at})
		made = append(made, func(n string) string { return position(n, grid) })
	}
	if phase.Mentions(w.of) {
		params = append(params, syntax.Param{Type: "uvec3", Name: w.of})
		// What is added is 0, but no compiler knows: kernels make numbers of the count that are to stay unknown.
		counts := fmt.Sprintf("uvec3(%du, %du, %du) + (gl_NumWorkGroups >> 31)", grid[0], grid[1], grid[2])
		made = append(made, func(string) string { return counts })
	}
	return func(n string) string {
		var list []string
		for _, arg := range made {
			list = append(list, arg(n))
		}
		return strings.Join(list, ", ")
	}, params
}

// position is the workgroup of a number in a grid.
func position(n string, grid [3]uint32) string {
	switch {
	case grid[1]*grid[2] == 1:
		return fmt.Sprintf("uvec3(%s, 0u, 0u)", n)
	case grid[0]*grid[2] == 1:
		return fmt.Sprintf("uvec3(0u, %s, 0u)", n)
	}
	return fmt.Sprintf("uvec3(%s %% %du, %[1]s / %[2]du %% %[3]du, %[1]s / %[4]du)", n, grid[0], grid[1],
		grid[0]*grid[1])
}

// bound are views of buffers at other slots.
func (w *phaseWriter) bound(views []view, slots []int) []view {
	views = slices.Clone(views)
	for i, v := range views {
		b := *v.buffer
		b.slot = slots[v.slot]
		views[i].buffer = &b
		if w.changes[b.slot] {
			views[i].qualifiers = "nonprivate " + v.qualifiers
		}
	}
	return views
}

// union appends the lines that are not there yet.
func union(lines, more []string) []string {
	for _, l := range more {
		if !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	return lines
}

// calls are the statements in which workgroups execute a phase, whose call for a workgroup of a number is given.
func (w *phaseWriter) calls(call func(n string) string, grid [3]uint32) []syntax.Stmt {
	groups := uint32(w.groups)
	all := grid[0] * grid[1] * grid[2]
	switch {
	case all == groups:
		return statements("%s", call("gl_WorkGroupID.x"))
	case all < groups:
		return statements("if (gl_WorkGroupID.x < %du) {\n%s\n}", all, call("gl_WorkGroupID.x"))
	}
	return statements("for (uint n = gl_WorkGroupID.x; n < %du; n += %du) {\n%s\n"+
		"barrier(); // shared memory is used again\n}", all, groups, call("n"))
}

// declared is something that the whole text sees: a view of a buffer, shared memory or a definition.
type declared interface {
	symbol() string    // its name
	signature() string // what no other one may have
	String() string
}

// function is a definition as something declared.
type function struct{ *syntax.Definition }

func (f function) symbol() string    { return f.Name }
func (f function) signature() string { return f.Signature() }

// declare notes what is declared, and reports whether it is not there yet.
func (w *phaseWriter) declare(d declared) bool {
	if w.texts[d.String()] {
		return false
	}
	w.texts[d.String()], w.signatures[d.signature()] = true, true
	return true
}

// conflicts gives new names for what a phase declares otherwise than one before it. What is declared by a new name is
// another text itself, so that what uses it may have to be called otherwise as well.
func (w *phaseWriter) conflicts(phase parts) map[string]string {
	names := map[string]string{}
	for changed := true; changed; {
		changed = false
		for _, d := range phase.renamed(names).declarations() {
			if name := d.symbol(); !w.texts[d.String()] && w.signatures[d.signature()] && names[name] == "" {
				names[name], changed = w.fresh(name), true
			}
		}
	}
	return names
}

// declarations are all that a text declares.
func (p parts) declarations() (all []declared) {
	for _, v := range p.buffers {
		all = append(all, v)
	}
	for _, s := range p.shared {
		all = append(all, s)
	}
	for _, f := range p.functions {
		all = append(all, function{f})
	}
	return all
}

// renamed are the parts with other names in them.
func (p parts) renamed(names map[string]string) parts {
	if len(names) == 0 {
		return p
	}
	p.buffers, p.shared, p.functions = slices.Clone(p.buffers), slices.Clone(p.shared), slices.Clone(p.functions)
	for i := range p.buffers {
		a := &p.buffers[i].array
		a.name = cmp.Or(names[a.name], a.name)
	}
	for i := range p.shared {
		p.shared[i].name = cmp.Or(names[p.shared[i].name], p.shared[i].name)
	}
	for i, f := range p.functions {
		p.functions[i] = f.Renamed(names)
	}
	p.main = p.main.Renamed(names)
	return p
}
