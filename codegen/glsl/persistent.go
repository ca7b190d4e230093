package glsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Phase is a kernel that a persistent kernel executes as one of its parts.
type Phase struct {
	Shader *Shader
	Slots  []int     // the persistent kernel's binding for each binding of Shader
	Grid   [3]uint32 // the workgroup counts of the kernel
}

// Persistent writes the shader of a [kernel.Persistent] that is dispatched with the given number of workgroups. It
// executes the phases in order. A phase may read the results of every earlier phase. changes[i] says that a phase
// writes binding i. Two more bindings follow: the counters of the barrier between phases, and the word that a workgroup
// sets when it times out at the barrier.
//
// A phase becomes a function, and a workgroup calls it once for each workgroup of the phase that it executes. If two
// phases use one name for different things, the later one gets a number. Buffers that a phase writes are nonprivate,
// because other invocations read and write them.
func Persistent(name string, phases []Phase, changes []bool, groups int) (*Shader, error) {
	first := phases[0].Shader
	for i, p := range phases {
		ownText := p.Shader.parts.main == nil // the user's, of a custom op
		sameSize := p.Shader.Workgroup == first.Workgroup && p.Shader.SubgroupSize == first.SubgroupSize
		if ownText || !sameSize {
			return nil, fmt.Errorf("persistent kernel %s: phase %d has a text of its own, or workgroups or subgroups "+
				"of another size than the first", name, i)
		}
	}
	w := newPhaseWriter(phases, changes, groups)
	about := fmt.Sprintf("// %s: %d kernels in one dispatch of %d workgroups, which wait for one another between "+
		"them.\n", name, len(phases), groups)
	meet, leave, counters := w.barrier()
	sh := &Shader{Grid: kernel.Grid{{{Extent: ir.D(groups), Tile: 1}}}, Workgroup: first.Workgroup,
		SubgroupSize: first.SubgroupSize, Needs: []string{emit.NeedMemoryModel}}
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
	w.parts.extensions = append(w.parts.extensions,
		"#extension "+emit.Needs[emit.NeedMemoryModel].Extension+" : require\n", "#pragma use_vulkan_memory_model\n")
	sh.parts = w.parts
	sh.Source = sh.parts.text(sh.Workgroup)
	return sh, nil
}

// waiting has the GLSL of the barrier between workgroups. MEET waits for the other workgroups. LEAVE resets the
// counters at the end. A workgroup times out after polling 2^22 times, which takes seconds: it sets the word LATE, and
// the top bit of the counter, so that no workgroup waits any more. That is necessary because Vulkan does not guarantee
// that all workgroups of a dispatch run at the same time.
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

// statements parses GLSL that this file contains, formatted with args.
func statements(format string, args ...any) []syntax.Stmt {
	list, err := syntax.Format(format, args...)
	if err != nil {
		panic(err)
	}
	return list
}

// phaseWriter joins the shaders of the phases to one shader.
type phaseWriter struct {
	parts      parts
	changes    []bool
	groups     int             // number of workgroups of the dispatch
	taken      map[string]bool // the names that any phase uses
	sources    map[string]bool // the declarations so far, as GLSL
	signatures map[string]bool // their signatures
	// Names in the functions of phases: the parameters with the workgroup's id and the number of workgroups, and the
	// variable with the global invocation id.
	groupID, groupCount, invocationID string
}

// newPhaseWriter returns a writer. The names that it declares itself differ from all names in the phases' sources.
func newPhaseWriter(phases []Phase, changes []bool, groups int) *phaseWriter {
	w := &phaseWriter{changes: changes, groups: groups, taken: map[string]bool{}, sources: map[string]bool{},
		signatures: map[string]bool{}}
	for _, p := range phases {
		syntax.EachName(p.Shader.Source, func(name string) { w.taken[name] = true })
	}
	w.groupID, w.groupCount, w.invocationID = w.fresh("workgroup"), w.fresh("workgroups"), w.fresh("invocation")
	return w
}

// fresh returns a name like base that is not used, and marks it as used.
func (w *phaseWriter) fresh(base string) string {
	name := base
	for n := 2; w.taken[name] || emit.Unusable(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	w.taken[name] = true
	return name
}

// barrier defines the functions in waiting. It returns their names, and the buffers of the counters.
func (w *phaseWriter) barrier() (meet, leave string, counters []emit.View) {
	meet, leave = w.fresh("meet"), w.fresh("leave")
	meeting, late := w.fresh("meeting"), w.fresh("late")
	for i, name := range []string{meeting, late} {
		counters = append(counters, emit.View{Buffer: &emit.Buffer{Slot: len(w.changes) + i},
			Array: emit.Array{Typ: "uint", Name: name}})
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

// add adds a phase's declarations, and returns the statements that execute the phase: a workgroup of the dispatch
// executes every w.groups-th workgroup of the phase.
func (w *phaseWriter) add(number int, p Phase) []syntax.Stmt {
	from := p.Shader.parts
	w.parts.extensions = union(w.parts.extensions, from.extensions)
	w.parts.modes = union(w.parts.modes, from.modes)
	from.buffers = w.bound(from.buffers, p.Slots)
	names := w.conflicts(from)
	names["gl_WorkGroupID"], names["gl_NumWorkGroups"] = w.groupID, w.groupCount
	names["gl_GlobalInvocationID"] = w.invocationID
	from = from.renamed(names)
	w.parts.buffers = declared(w, w.parts.buffers, from.buffers, ofBuffer)
	w.parts.shared = declared(w, w.parts.shared, from.shared, ofShared)
	w.parts.functions = declared(w, w.parts.functions, from.functions, ofFunction)
	return w.call(*from.main, number, p.Grid)
}

// call adds the function of a phase, and returns the statements that call it for the workgroups of the phase's grid.
func (w *phaseWriter) call(phase syntax.Definition, number int, grid [3]uint32) []syntax.Stmt {
	phase.Name = w.fresh(fmt.Sprintf("phase_%d", number+1))
	if phase.Mentions(w.invocationID) {
		phase.Body = append(statements("uvec3 %s = %s * gl_WorkGroupSize + gl_LocalInvocationID;", w.invocationID,
			w.groupID), phase.Body...)
	}
	count, groups := grid[0]*grid[1]*grid[2], uint32(w.groups)
	n := "gl_WorkGroupID.x" // the number of the phase's workgroup that a call executes
	if count > groups {
		n = "n"
	}
	args := w.arguments(&phase, n, grid)
	w.parts.functions = append(w.parts.functions, &phase)
	call := phase.Name + "(" + strings.Join(args, ", ") + ");"
	switch {
	case count == groups:
		return statements("%s", call)
	case count < groups:
		return statements("if (gl_WorkGroupID.x < %du) {\n%s\n}", count, call)
	}
	return statements("for (uint n = gl_WorkGroupID.x; n < %du; n += %du) {\n%s\n"+
		"barrier(); // shared memory is used again\n}", count, groups, call)
}

// arguments sets the parameters of a phase's function, and returns the arguments for workgroup n of the phase. A phase
// has only the parameters that it uses: the workgroup's id, and the number of workgroups.
func (w *phaseWriter) arguments(phase *syntax.Definition, n string, grid [3]uint32) (args []string) {
	phase.Params = nil
	if phase.Mentions(w.groupID) {
		phase.Params = append(phase.Params, syntax.Param{Type: "uvec3", Name: w.groupID})
		args = append(args, position(n, grid))
	}
	if phase.Mentions(w.groupCount) {
		phase.Params = append(phase.Params, syntax.Param{Type: "uvec3", Name: w.groupCount})
		// The addition of 0 hides the count from compilers, because kernels derive values from it that compilers must
		// not know.
		args = append(args, fmt.Sprintf("uvec3(%du, %du, %du) + (gl_NumWorkGroups >> 31)", grid[0], grid[1], grid[2]))
	}
	return args
}

// position returns the id of workgroup n of a grid.
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

// bound returns the views of a phase with the persistent kernel's bindings. slots[i] is the binding that replaces
// binding i of the phase.
func (w *phaseWriter) bound(views []emit.View, slots []int) []emit.View {
	views = slices.Clone(views)
	for i, v := range views {
		b := *v.Buffer
		b.Slot = slots[v.Slot]
		views[i].Buffer = &b
		if w.changes[b.Slot] {
			views[i].Qualifiers = "nonprivate " + v.Qualifiers
		}
	}
	return views
}

// union returns lines, followed by the lines of more that it lacks.
func union(lines, more []string) []string {
	for _, l := range more {
		if !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	return lines
}

// declared appends to list the parts of `more` that no earlier phase has declared, and records them.
func declared[T any](w *phaseWriter, list, more []T, of func(T) declaration) []T {
	for _, x := range more {
		if d := of(x); !w.sources[d.source] {
			w.sources[d.source], w.signatures[d.signature] = true, true
			list = append(list, x)
		}
	}
	return list
}

// conflicts returns new names for a phase's declarations that differ from an earlier phase's declaration of the same
// name. Renaming a declaration changes the functions that mention it, so these may need new names too.
func (w *phaseWriter) conflicts(phase parts) map[string]string {
	names := map[string]string{}
	for changed := true; changed; {
		changed = false
		for _, d := range phase.renamed(names).declarations() {
			isOther := w.signatures[d.signature] && !w.sources[d.source] // an earlier phase declares something else
			if isOther && names[d.name] == "" {
				names[d.name], changed = w.fresh(d.name), true
			}
		}
	}
	return names
}
