package glsl

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

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
	w := newPhaseWriter(phases, changes)
	first := phases[0].Shader
	sh := &Shader{Grid: kernel.Grid{{{Extent: ir.D(groups), Tile: 1}}}, Workgroup: first.Workgroup,
		SubgroupSize: first.SubgroupSize}
	about := fmt.Sprintf("// %s: %d kernels in one dispatch of %d workgroups, which wait for one another between "+
		"them.\n", name, len(phases), groups)
	meet, leave := w.fresh("meet"), w.fresh("leave")
	meeting, late := w.fresh("meeting"), w.fresh("late")
	main := "void main() {\n"
	for i, p := range phases {
		if one := p.Shader; one.parts.functions == nil || one.Workgroup != sh.Workgroup ||
			one.SubgroupSize != sh.SubgroupSize {
			return nil, fmt.Errorf("persistent kernel %s: phase %d has a text of its own, or workgroups or subgroups "+
				"of another size than the first", name, i)
		}
		if i > 0 {
			main += fmt.Sprintf("    %s(%du);\n", meet, i*groups)
		}
		about += fmt.Sprintf("//\n// %d.%s", i+1, strings.TrimPrefix(p.Shader.parts.about, "//"))
		main += w.add(i, p, groups)
		sh.Needs = append(sh.Needs, p.Shader.Needs...)
		sh.SharedBytes += p.Shader.SharedBytes
	}
	sh.Needs = append(sh.Needs, NeedMemoryModel)
	slices.Sort(sh.Needs)
	sh.Needs = slices.Compact(sh.Needs)
	sh.parts = w.parts
	sh.parts.about = about
	sh.parts.extensions = append(sh.parts.extensions, "#extension "+extensions[NeedMemoryModel]+" : require\n",
		"#pragma use_vulkan_memory_model\n")
	for i, name := range []string{meeting, late} {
		sh.parts.buffers = append(sh.parts.buffers, view{&buffer{slot: len(changes) + i},
			array{typ: "uint", name: name}})
	}
	waits := strings.NewReplacer("MEETING", meeting, "LATE", late, "MEET", meet, "LEAVE", leave,
		"BUFFERS", "gl_StorageSemanticsBuffer", "BOTH_WAYS",
		"gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible",
		"LAST", fmt.Sprintf("%du", groups-1)).Replace(waiting)
	sh.parts.functions = slices.Concat([]string{waits}, w.parts.functions, []string{main + "    " + leave + "();\n}\n"})
	sh.Source = sh.parts.text(sh.Workgroup)
	return sh, nil
}

// waiting are the functions of a persistent kernel by which its workgroups wait. They give up after 2^22 looks, which
// take seconds: Vulkan does not promise that all workgroups of a dispatch are executed at a time.
const waiting = `// Waits until the workgroups have been here count times in all, and sees what they wrote before.
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

// The last workgroup leaves the counters as it found them.
void LEAVE() {
    if (gl_LocalInvocationIndex == 0u && atomicAdd(MEETING[1], 1u) == LAST) {
        MEETING[0] = 0u;
        MEETING[1] = 0u;
    }
}
`

// phaseWriter puts the texts of phases together.
type phaseWriter struct {
	parts   parts
	changes []bool
	taken   map[string]bool // names that stand anywhere in a phase
	texts   map[string]bool // what is declared for all phases
	heads   map[string]bool // the first lines of that
	at, of  string          // the parameters of a phase: which workgroup it is, and how many there are
	id      string          // the invocation among those of the phase
}

func newPhaseWriter(phases []Phase, changes []bool) *phaseWriter {
	w := &phaseWriter{changes: changes, taken: map[string]bool{}, texts: map[string]bool{}, heads: map[string]bool{}}
	for _, p := range phases {
		eachNameOf(p.Shader.Source, func(name string) { w.taken[name] = true })
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

// add takes a phase into the text, and returns the lines that execute it.
func (w *phaseWriter) add(number int, p Phase, groups int) string {
	from := p.Shader.parts
	for _, list := range []struct{ to, from *[]string }{{&w.parts.extensions, &from.extensions},
		{&w.parts.modes, &from.modes}} {
		for _, line := range *list.from {
			if !slices.Contains(*list.to, line) {
				*list.to = append(*list.to, line)
			}
		}
	}
	if !strings.Contains(w.parts.macros, from.macros) {
		w.parts.macros += from.macros
	}
	views := make([]view, len(from.buffers))
	for i, v := range from.buffers {
		views[i] = view{&buffer{Binding: v.Binding, slot: p.Slots[v.slot]}, v.array}
		if w.changes[views[i].slot] {
			views[i].qualifiers = "nonprivate " + v.qualifiers
		}
	}
	last := len(from.functions) - 1
	names := w.conflicts(views, slices.Concat(from.shared, from.functions[:last]))
	names["gl_WorkGroupID"], names["gl_NumWorkGroups"], names["gl_GlobalInvocationID"] = w.at, w.of, w.id
	for _, v := range views {
		v.array.name = renamed(v.array.name, names)
		if w.declare(v.declaration()) {
			w.parts.buffers = append(w.parts.buffers, v)
		}
	}
	for _, s := range from.shared {
		if s = renamed(s, names); w.declare(s) {
			w.parts.shared = append(w.parts.shared, s)
		}
	}
	for _, f := range from.functions[:last] {
		if f = renamed(f, names); w.declare(f) {
			w.parts.functions = append(w.parts.functions, f)
		}
	}
	phase := w.fresh(fmt.Sprintf("phase_%d", number+1))
	main := renamed(from.functions[last], names)
	params, counts := "uvec3 "+w.at, ""
	if used, _ := calls(w.of, []string{main}); used {
		params += ", uvec3 " + w.of
		counts = fmt.Sprintf(", uvec3(%du, %du, %du) + (gl_NumWorkGroups >> 31)", // + 0
			p.Grid[0], p.Grid[1], p.Grid[2])
	}
	begin := "void " + phase + "(" + params + ") {\n"
	if used, _ := calls(w.id, []string{main}); used {
		begin += fmt.Sprintf("    uvec3 %s = %s * gl_WorkGroupSize + gl_LocalInvocationID;\n", w.id, w.at)
	}
	w.parts.functions = append(w.parts.functions, strings.Replace(main, "void main() {\n", begin, 1))
	return w.calls(phase, counts, p.Grid, groups)
}

// calls are the lines in which so many workgroups execute a phase.
func (w *phaseWriter) calls(phase, counts string, grid [3]uint32, groups int) string {
	all := grid[0] * grid[1] * grid[2]
	at := func(n string) string {
		switch {
		case grid[1]*grid[2] == 1:
			return fmt.Sprintf("uvec3(%s, 0u, 0u)", n)
		case grid[0]*grid[2] == 1:
			return fmt.Sprintf("uvec3(0u, %s, 0u)", n)
		}
		return fmt.Sprintf("uvec3(%s %% %du, %[1]s / %[2]du %% %[3]du, %[1]s / %[4]du)", n, grid[0], grid[1],
			grid[0]*grid[1])
	}
	one := fmt.Sprintf("%s(%s%s);\n", phase, at("gl_WorkGroupID.x"), counts)
	switch {
	case all == uint32(groups):
		return "    " + one
	case all < uint32(groups):
		return fmt.Sprintf("    if (gl_WorkGroupID.x < %du) {\n        %s    }\n", all, one)
	}
	return fmt.Sprintf("    for (uint n = gl_WorkGroupID.x; n < %du; n += %du) {\n        %s(%s%s);\n"+
		"        barrier(); // shared memory is used again\n    }\n", all, groups, phase, at("n"), counts)
}

// declare notes what is declared, and reports whether it is not there yet.
func (w *phaseWriter) declare(text string) bool {
	if w.texts[text] {
		return false
	}
	w.texts[text] = true
	for _, head := range headsOf(text) {
		w.heads[head] = true
	}
	return true
}

// conflicts gives new names for what a phase declares otherwise than one before it. What is declared by a new name is
// another text itself, so that what uses it may have to be called otherwise as well.
func (w *phaseWriter) conflicts(views []view, texts []string) map[string]string {
	names := map[string]string{}
	for changed := true; changed; {
		changed = false
		check := func(text string) {
			if w.texts[text] {
				return
			}
			for _, head := range headsOf(text) {
				if name := declaredBy(head); w.heads[head] && names[name] == "" {
					names[name], changed = w.fresh(name), true
				}
			}
		}
		for _, v := range views {
			v.array.name = renamed(v.array.name, names)
			check(v.declaration())
		}
		for _, t := range texts {
			check(renamed(t, names))
		}
	}
	return names
}

// head is the first line of a declaration that all functions see: of an array in a buffer or in shared memory, a
// constant, a macro or a function.
var head = regexp.MustCompile(
	`(?m)^(?:layout.* \{ \S+ (\w+)\[|shared \S+ (\w+)|const \S+ (\w+)|#define (\w+)|[a-z]\w* (\w+)\().*$`)

// headsOf returns what a text declares: of functions with their arguments, by which those of one name differ, and of
// all else the name.
func headsOf(text string) (heads []string) {
	for _, m := range head.FindAllStringSubmatch(text, -1) {
		if m[5] != "" {
			heads = append(heads, m[0])
			continue
		}
		heads = append(heads, strings.Join(m[1:5], ""))
	}
	return heads
}

// declaredBy is the name in a head.
func declaredBy(h string) string {
	if m := head.FindStringSubmatch(h); m != nil {
		return m[5]
	}
	return h
}

// renamed is a text with other names.
func renamed(text string, names map[string]string) string {
	if len(names) == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		at := 0
		eachName(line, func(from, to int) {
			if n, ok := names[line[from:to]]; ok {
				b.WriteString(line[at:from] + n)
				at = to
			}
		})
		b.WriteString(line[at:])
	}
	return b.String()
}

// eachNameOf calls visit with the names in a text.
func eachNameOf(text string, visit func(name string)) {
	for line := range strings.Lines(text) {
		eachName(line, func(from, to int) { visit(line[from:to]) })
	}
}
