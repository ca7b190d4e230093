package vk_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// kept runs a program with an input on the device, and leaves its output there.
func kept(t *testing.T, e *vk.Executable, x *runtime.DeviceTensor, opt runtime.RunOptions) *runtime.DeviceTensor {
	t.Helper()
	opt.Inputs, opt.Keep = map[string]*runtime.DeviceTensor{"x": x}, []string{"y"}
	r := must(e.Run(context.Background(), nil, opt))(t)
	if opt.Profile && r.Profile == nil {
		t.Error("there is no profile")
	}
	return r.Kept["y"]
}

// TestDeviceTensors: between runs that take tensors from the device and leave them there stand runs that do
// not, and neither gets the other's inputs.
func TestDeviceTensors(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n = 500
			live := d.Live()["buffer"]
			chain, lengths := chain(t, n).load(d), symbolic(t, 5000).load(d)
			x := must(chain.Upload(t.Context(), inputs(ramp(1, n))["x"]))(t)
			for _, profile := range []bool{false, true, false} {
				y := kept(t, chain, x, runtime.RunOptions{Profile: profile})
				z := kept(t, chain, y, runtime.RunOptions{})
				r := runProgram(t, chain, inputs(ramp(7, n)), runtime.RunOptions{Profile: profile})
				expect(t, "y of a run between", r.Outputs["y"], scaled(ramp(7, n), 12))
				expect(t, "12x", must(y.Read(t.Context()))(t), scaled(ramp(1, n), 12))
				expect(t, "144x", must(z.Read(t.Context()))(t), scaled(ramp(1, n), 144))
				// From the host, and kept; from the device, and to the host.
				r = must(chain.Run(t.Context(), inputs(ramp(3, n)), runtime.RunOptions{Keep: []string{"y"}}))(t)
				expect(t, "kept alone", must(r.Kept["y"].Read(t.Context()))(t), scaled(ramp(3, n), 12))
				r.Kept["y"].Close()
				r = runProgram(t, chain, nil, runtime.RunOptions{Inputs: map[string]*runtime.DeviceTensor{"x": y}})
				expect(t, "to the host", r.Outputs["y"], scaled(ramp(1, n), 144))
				y.Close()
				z.Close()
			}
			x.Close()
			for _, rows := range []int{3, 5000, 1} {
				data := tensor(ramp(0, rows*8), rows, 8)
				x := must(lengths.Upload(t.Context(), data))(t)
				y := kept(t, lengths, x, runtime.RunOptions{Symbols: explicit(lengths)})
				want := ramp(float32(rows), rows*8) // it adds the number of rows
				expect(t, "rows", must(y.Read(t.Context()))(t), want)
				opt := runtime.RunOptions{Symbols: explicit(lengths)}
				r := runProgram(t, lengths, inputs(ramp(0, rows*8), rows, 8), opt)
				expect(t, "rows from the host", r.Outputs["y"], want)
				x.Close()
				y.Close()
			}
			if err := errors.Join(chain.Close(), lengths.Close()); err != nil {
				t.Error(err)
			}
			if after := d.Live()["buffer"]; after != live {
				t.Errorf("%d buffers, and %d before", after, live)
			}
		})
	}
}

// TestNoRoomForKept: a run without enough memory for its kept outputs fails before it begins, and leaves nothing
// behind.
func TestNoRoomForKept(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{BlockBytes: 1 << 10})
	const n = 1 << 20
	e := counter(t, n).load(d)
	live := d.Live()["buffer"]
	lift := d.LimitAllocations(0)
	_, err := e.Run(t.Context(), inputs(ramp(1, n)), runtime.RunOptions{Keep: []string{"twice"}})
	lift()
	wantError(t, err, "kept output twice", "cannot allocate 4.0 MiB")
	if after := d.Live()["buffer"]; after != live {
		t.Errorf("%d buffers, and %d before", after, live)
	}
	expect(t, "state", must(e.ReadState("sum"))(t), make([]float32, n))
}

// TestRunsBound: runs that take tensors of earlier runs, with tensors in reused memory, are recorded once for that
// memory and not again. This also holds if the host provides some of the inputs. A run with other tensors in between is
// right as well.
func TestRunsBound(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) { runsBound(t, vktest.Device(t, options), 500) })
		t.Run(name+"/few", func(t *testing.T) { runsBound(t, vktest.Device(t, options), 8) })
	}
}

// runsBound has runs of n numbers each.
func runsBound(t *testing.T, d *vk.Device, n int) {
	const ahead = 3
	exe := counter(t, n).load(d)
	sum, last := make([]float32, n), make([]float32, n)
	var flying []*runtime.DeviceTensor
	var wants [][]float32
	land := func() {
		expect(t, "twice", must(flying[0].Read(t.Context()))(t), wants[0])
		flying[0].Close()
		flying, wants = flying[1:], wants[1:]
	}
	recordings := 0
	for i := range 800 { // many times as many as the device may have at a time
		in, opt := inputs(ramp(1/float32(i+1), n)), runtime.RunOptions{Keep: []string{"twice"}}
		x := ramp(1/float32(i+1), n)
		if i%5 != 0 { // each place in turn has runs of both kinds
			in, x = nil, last
			opt.Inputs = map[string]*runtime.DeviceTensor{"x": flying[len(flying)-1]}
		}
		if i == 51 { // from elsewhere
			other := must(exe.Upload(t.Context(), inputs(ramp(3, n))["x"]))(t)
			defer other.Close()
			opt.Inputs["x"], x = other, ramp(3, n)
		}
		r := must(exe.Run(t.Context(), in, opt))(t)
		want := make([]float32, n)
		for j := range sum {
			sum[j] += x[j]
			want[j] = 2 * sum[j]
		}
		last = want
		if flying, wants = append(flying, r.Kept["twice"]), append(wants, want); len(flying) > ahead {
			land()
		}
		if i == 640 {
			recordings = exe.Stats().Recordings
		}
	}
	if now := exe.Stats().Recordings; recordings < 64 || now != recordings {
		t.Errorf("%d recordings after 640 runs, %d after 800: want 64 at least, and no more", recordings, now)
	}
	for len(flying) > 0 {
		land()
	}
	expect(t, "state", must(exe.ReadState("sum"))(t), sum)
}

// TestGroups: runs that are repeatedly submitted together become one recording. It is freed when their program is
// closed. After all earlier runs have been waited for, new runs use the recordings of the previous rounds.
func TestGroups(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n, together = 500, 4
			none := d.Live()["recording"]
			exe := counter(t, n).load(d)
			sum := float32(0)
			type given struct {
				*runtime.DeviceTensor
				want float32
			}
			var flying []given
			land := func(left int) {
				for ; len(flying) > left; flying = flying[1:] {
					if got := floats(must(flying[0].Read(t.Context()))(t).Bytes)[n-1]; got != flying[0].want {
						t.Fatalf("a run gave %v, want %v", got, flying[0].want)
					}
					flying[0].Close()
				}
			}
			runs := func(count int, more bool) {
				for i := range count {
					in := make([]float32, n)
					in[n-1] = 1
					sum++
					opt := runtime.RunOptions{Keep: []string{"twice"}, More: more && i%together != together-1}
					flying = append(flying, given{runProgram(t, exe, inputs(in), opt).Kept["twice"], 2 * sum})
					if i%together == together-1 {
						land(together)
					}
				}
			}
			live := func() int { return d.Live()["recording"] }
			runs(128, false)
			alone := live()
			runs(128, true)
			if got := live() - alone; got != 8 { // a quarter each of the runs that there are places for
				t.Errorf("%d recordings of groups, want 8", got)
			}
			runs(128, true)
			if got := live() - alone; got != 8 {
				t.Errorf("%d recordings of groups later, want 8", got)
			}
			for range 6 { // an answer of 18 runs after another
				land(0)
				runs(18, true)
			}
			if got := live() - alone; got != 9 { // the last two runs are one, too
				t.Errorf("%d recordings of groups that begin where they began, want 9", got)
			}
			for shift := range 20 { // groups that begin anywhere
				runs(shift%7, false)
				runs(128, true)
			}
			if got := live() - alone; got < 16 || got > 256 {
				t.Errorf("%d recordings of groups that begin anywhere, want 16 at least, and 256 at most", got)
			}
			land(0)
			if err := exe.Close(); err != nil {
				t.Fatal(err)
			}
			if now := live(); now != none {
				t.Errorf("%d recordings are left, and %d were there", now, none)
			}
		})
	}
}

// TestGroupsOfPrograms: in a recording of several programs' runs, the barriers between runs order copies, kernels and
// reads of workgroup counts, in every combination. Validation layers check this too.
func TestGroupsOfPrograms(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const most, together, rounds = 40, 4, 8
			rows, count := symbolic(t, most).load(d), counter(t, 8).load(d)
			recordings := 0
			sum := make([]float32, 8)
			for round := range rounds {
				var kept []*runtime.DeviceTensor
				var wants [][]float32
				run := func(e *vk.Executable, in map[string]*ir.Data, opt runtime.RunOptions, want []float32) {
					kept = append(kept, runProgram(t, e, in, opt).Kept[opt.Keep[0]])
					wants = append(wants, want)
				}
				for i := range 4 * together {
					n := most/2 + (7*i+round)%(most/2) // so many that memory is made for all, and not all
					opt := runtime.RunOptions{Keep: []string{"y"}, Symbols: explicit(rows), More: true}
					run(rows, inputs(ramp(float32(i), n*8), n, 8), opt, ramp(float32(i+n), n*8))
					opt.Inputs = map[string]*runtime.DeviceTensor{"x": kept[len(kept)-1]}
					run(rows, nil, opt, ramp(float32(i+2*n), n*8))
					for j := range sum {
						sum[j] += float32(i + j)
					}
					opt = runtime.RunOptions{Keep: []string{"twice"}, More: i%together != together-1}
					run(count, inputs(ramp(float32(i), 8)), opt, scaled(sum, 2))
				}
				for i, y := range kept {
					expect(t, "a run of a group", must(y.Read(t.Context()))(t), wants[i])
				}
				for _, y := range kept {
					y.Close()
				}
				if round == rounds/2 {
					recordings = d.Live()["recording"]
				}
			}
			if now := d.Live()["recording"]; now != recordings {
				t.Errorf("%d recordings after %d rounds, %d after %d", recordings, rounds/2, now, rounds)
			}
		})
	}
}

// TestGroupsGiveWay: a group that is replaced by another one is closed, even if that happens while somebody waits for a
// run and no other run follows.
func TestGroupsGiveWay(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const count, alone, most = 12, 4, 8 // runs of a round, rounds without groups, groups that end with the same run
	exe := counter(t, 8).load(d)
	recordings := 0
	for round := range alone + 2*(count-1) - 1 { // in the last round a group is replaced
		var list []*runtime.DeviceTensor
		first := count - 2 - (round-alone)/2 // the first run of the group; each group occurs twice
		for i := range count {
			opt := runtime.RunOptions{Keep: []string{"twice"}, More: round >= alone && i >= first}
			list = append(list, runProgram(t, exe, inputs(ramp(1, 8)), opt).Kept["twice"])
		}
		must(list[count-1].Read(t.Context()))(t) // which submits the group
		for _, x := range list {
			x.Close()
		}
		switch now := d.Live()["recording"]; {
		case round == alone-1:
			recordings = now
		case round == alone+2*most-1 && now != recordings+most:
			t.Errorf("%d recordings of groups after %d were there twice, want all", now-recordings, most)
		case round >= alone && now > recordings+most:
			t.Errorf("round %d: %d recordings of groups, want %d at most", round, now-recordings, most)
		}
	}
	if err := exe.Close(); err != nil {
		t.Fatal(err)
	}
	if live := d.Live()["recording"]; live != 0 {
		t.Errorf("%d recordings of a closed program", live)
	}
}

// TestLargeKept: of outputs too large to have memory for every run under way there is one, which a run finds free where
// nobody has the tensor of the one before it.
func TestLargeKept(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 1 << 19
	exe := counter(t, n).load(d)
	first := runProgram(t, exe, inputs(ramp(1, n)), runtime.RunOptions{Keep: []string{"twice"}}).Kept["twice"]
	recordings, live := 0, 0
	nothing := inputs(make([]float32, n))
	for i := range 120 {
		kept := runProgram(t, exe, nothing, runtime.RunOptions{Keep: []string{"twice"}}).Kept["twice"]
		if i == 119 {
			expect(t, "twice", must(kept.Read(t.Context()))(t), floats(must(first.Read(t.Context()))(t).Bytes))
		}
		kept.Close()
		if i == 80 {
			recordings, live = exe.Stats().Recordings, d.Live()["buffer"]
		}
	}
	if now := exe.Stats().Recordings; now != recordings || d.Live()["buffer"] != live {
		t.Errorf("%d recordings and %d buffers after 80 runs, %d and %d after 120", recordings, live, now,
			d.Live()["buffer"])
	}
	first.Close()
}

// TestBoundSymbols: such runs read symbols where the host wrote them, each its own, and other runs between them theirs.
func TestBoundSymbols(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			const most = 5
			exe := symbolic(t, most).load(vktest.Device(t, options))
			var flying []*runtime.DeviceTensor
			rows := func(i int) int {
				if i < 64 {
					return most // so that later runs have room for everything
				}
				return 1 + i%most
			}
			land := func(i int) {
				expect(t, "y", must(flying[0].Read(t.Context()))(t), ramp(float32(i+rows(i)), rows(i)*8))
				flying[0].Close()
				flying = flying[1:]
			}
			const runs, ahead = 384, 3
			recordings := 0
			for i := range runs {
				opt := runtime.RunOptions{Keep: []string{"y"}, Symbols: explicit(exe)}
				r := must(exe.Run(t.Context(), inputs(ramp(float32(i), rows(i)*8), rows(i), 8), opt))(t)
				if flying = append(flying, r.Kept["y"]); len(flying) > ahead {
					land(i - ahead)
				}
				if i%7 == 6 && i < 30 { // as many rows as the last one had, and other ones
					for _, n := range []int{rows(i), 1 + i%most} {
						r := runProgram(t, exe, inputs(ramp(float32(i), n*8), n, 8),
							runtime.RunOptions{Symbols: explicit(exe)})
						expect(t, "y of a run between", r.Outputs["y"], ramp(float32(i+n), n*8))
					}
				}
				if i == 240 {
					recordings = exe.Stats().Recordings
				}
			}
			if now := exe.Stats().Recordings; recordings < 32 || now != recordings {
				t.Errorf("%d recordings after 240 runs, %d after all: want 32 at least, and no more", recordings, now)
			}
			for len(flying) > 0 {
				land(runs - len(flying))
			}
		})
	}
}

// TestFullGrids: runs with the largest possible grids are recorded with fixed grids, and others read the grid size from
// a buffer. Each is right, and neither causes the other to be recorded again.
func TestFullGrids(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			const most, runs = 5, 1024
			exe := symbolic(t, most).load(vktest.Device(t, options))
			run := func(i, rows int) {
				opt := runtime.RunOptions{Keep: []string{"y"}, Symbols: explicit(exe)}
				r := must(exe.Run(t.Context(), inputs(ramp(float32(i), rows*8), rows, 8), opt))(t)
				expect(t, "y", must(r.Kept["y"].Read(t.Context()))(t), ramp(float32(i+rows), rows*8))
				r.Kept["y"].Close() // so that each run uses the slot after the previous run's
			}
			for i := range 128 {
				run(i, most)
			}
			if all, indirect := exe.Dispatches(); all < 32 || indirect > 0 {
				t.Errorf("%d of %d dispatches read their counts: want none of 32 at least", indirect, all)
			}
			recordings := 0
			for i := range runs {
				if run(i, 1+i/16%most); i == runs/2 {
					recordings = exe.Stats().Recordings
				}
			}
			if all, indirect := exe.Dispatches(); indirect == 0 || indirect == all {
				t.Errorf("%d of %d dispatches read their counts: want some", indirect, all)
			}
			if now := exe.Stats().Recordings; now != recordings {
				t.Errorf("%d recordings after %d runs, %d after %d", recordings, runs/2, now, runs)
			}
		})
	}
}

// TestLargeInputsAhead: each asynchronous run gets its own inputs, although they are copied concurrently with earlier
// runs and their length changes. A tensor can be uploaded while another run uses the program.
func TestLargeInputsAhead(t *testing.T) {
	staged := maps.Clone(placements)
	staged["through the rings"] = vk.ForceStaging(vk.DeviceOptions{StagingBytes: 100 << 10})
	for name, options := range staged {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n = 20000
			chain, lengths := chain(t, n).load(d), symbolic(t, 5000).load(d)
			keep := runtime.RunOptions{Keep: []string{"y"}}
			bySymbols := runtime.RunOptions{Keep: []string{"y"}, Symbols: explicit(lengths)}
			live := 0
			for round := range 3 {
				var chained, long []*runtime.DeviceTensor
				for i := range 40 { // more than the device may have at a time
					r := must(chain.Run(t.Context(), inputs(ramp(float32(i), n)), keep))(t)
					chained = append(chained, r.Kept["y"])
					rows := 3000 + 50*i
					r = must(lengths.Run(t.Context(), inputs(ramp(float32(i), rows*8), rows, 8), bySymbols))(t)
					long = append(long, r.Kept["y"])
				}
				let := must(chain.Hold(t.Context()))(t)
				x := must(chain.Upload(t.Context(), inputs(ramp(3, n))["x"]))(t)
				let()
				for i := range chained {
					expect(t, "chained", must(chained[i].Read(t.Context()))(t), scaled(ramp(float32(i), n), 12))
					rows := 3000 + 50*i
					expect(t, "long", must(long[i].Read(t.Context()))(t), ramp(float32(i+rows), rows*8))
					chained[i].Close()
					long[i].Close()
				}
				expect(t, "an uploaded tensor", must(x.Read(t.Context()))(t), ramp(3, n))
				x.Close()
				if after := d.Live()["buffer"]; round == 0 {
					live = after
				} else if after > live {
					t.Errorf("round %d: %d buffers, and %d after the first", round, after, live)
				}
			}
		})
	}
}

// TestRoomAhead: however large the inputs of runs ahead are, they take no more of the device together than there is for
// them; each run has its own, also where sizes change.
func TestRoomAhead(t *testing.T) {
	const most, large = 1 << 20, 8 * 4 // bytes of a row
	type values struct {
		in   map[string]*ir.Data
		want []float32
	}
	ofRows := map[int]values{}
	of := func(n int) values {
		if _, known := ofRows[n]; !known {
			ofRows[n] = values{inputs(ramp(float32(n), n*8), n, 8), ramp(float32(2*n), n*8)}
		}
		return ofRows[n]
	}
	staged := vk.ForceStaging(vk.DeviceOptions{})
	for placement, options := range map[string]vk.DeviceOptions{"direct": {}, "staged": staged} {
		d := vktest.Device(t, vk.LimitGiven(options, most))
		// The staging rings belong to the device. It creates them for the first tensor that needs them.
		first := chain(t, 20000).load(d)
		y := must(first.Run(t.Context(), inputs(ramp(1, 20000)), runtime.RunOptions{Keep: []string{"y"}}))(t).Kept["y"]
		expect(t, "the first run", must(y.Read(t.Context()))(t), scaled(ramp(1, 20000), 12))
		y.Close()
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		for name, list := range map[string][]int{
			"all of one size": {20000}, "few of them": {3000, 16000}, "as large as may be": {most / 2 / large},
			"larger and larger": {3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12000, 14000, 16000},
			"small ones, too":   {8, 16000, 8, 8, 16000}, "some that are waited for": {most/2/large + 1, 16000, 16000},
		} {
			for _, bound := range []int{16384, 40000} { // whose whole input a run may be given, and may not
				exe := symbolic(t, bound).load(d)
				before := d.MemoryStats().Owners[runtime.OwnStaging]
				opt := runtime.RunOptions{Keep: []string{"y"}, Symbols: explicit(exe)}
				var flying []*runtime.DeviceTensor
				var rows []int
				land := func() {
					expect(t, name, must(flying[0].Read(t.Context()))(t), of(rows[0]).want)
					flying[0].Close()
					flying, rows = flying[1:], rows[1:]
				}
				for i := range 50 {
					n := min(list[i%len(list)], bound)
					y := must(exe.Run(t.Context(), of(n).in, opt))(t).Kept["y"]
					if flying, rows = append(flying, y), append(rows, n); len(flying) == 20 {
						land()
					}
				}
				for len(flying) > 0 {
					land()
				}
				if err := d.WaitIdle(t.Context()); err != nil {
					t.Fatal(err)
				}
				const small = 17 << 16 // for 16 runs, and symbols
				if use := d.MemoryStats().Owners[runtime.OwnStaging] - before; use > most+small {
					t.Errorf("%s, %s: runs have %d KiB for what the host gives them, want at most %d", placement, name,
						use>>10, (most+small)>>10)
				}
				if err := exe.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestRunsAhead: runs that keep their outputs are asynchronous. Each uses its own inputs and lengths, even if the next
// run gets different ones before it is done, and other work between runs is in order. When tensors are closed, later
// ones reuse their memory.
func TestRunsAhead(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n = 500
			chain, lengths, count := chain(t, n).load(d), symbolic(t, 5000).load(d), counter(t, n).load(d)
			live := 0
			sum := make([]float32, n)
			for round := range 3 {
				var chained, long, counted []*runtime.DeviceTensor
				keep := func(name string) runtime.RunOptions { return runtime.RunOptions{Keep: []string{name}} }
				for i := range 40 { // more than the device may have in flight
					r := must(chain.Run(t.Context(), inputs(ramp(float32(i), n)), keep("y")))(t)
					chained = append(chained, r.Kept["y"])
					rows := 1 + i%3
					opt := keep("y")
					opt.Symbols = explicit(lengths)
					r = must(lengths.Run(t.Context(), inputs(ramp(float32(i), rows*8), rows, 8), opt))(t)
					long = append(long, r.Kept["y"])
					r = must(count.Run(t.Context(), inputs(ramp(float32(i), n)), keep("twice")))(t)
					counted = append(counted, r.Kept["twice"])
					if i == 10 { // one that is waited for
						r := runProgram(t, chain, inputs(ramp(7, n)), runtime.RunOptions{})
						expect(t, "y of a run between", r.Outputs["y"], scaled(ramp(7, n), 12))
					}
				}
				for i := range chained {
					expect(t, "chained", must(chained[i].Read(t.Context()))(t), scaled(ramp(float32(i), n), 12))
					rows := 1 + i%3
					expect(t, "long", must(long[i].Read(t.Context()))(t), ramp(float32(i+rows), rows*8))
					for j := range sum {
						sum[j] += float32(i + j)
					}
					for _, x := range []*runtime.DeviceTensor{chained[i], long[i], counted[i]} {
						x.Close()
					}
				}
				switch after := d.Live()["buffer"]; {
				case round == 0:
					live = after
				case after > live:
					t.Errorf("round %d: %d buffers, and %d after the first", round, after, live)
				}
			}
			expect(t, "state", must(count.ReadState("sum"))(t), sum)
			r := must(chain.Run(t.Context(), inputs(ramp(1, n)), runtime.RunOptions{Keep: []string{"y"}}))(t)
			outlives := r.Kept["y"]
			if err := chain.Close(); err != nil {
				t.Fatal(err)
			}
			expect(t, "a tensor of a closed program", must(outlives.Read(t.Context()))(t), scaled(ramp(1, n), 12))
			live = d.Live()["buffer"]
			if outlives.Close(); d.Live()["buffer"] != live-1 {
				t.Errorf("%d buffers, and %d before its tensor was closed", d.Live()["buffer"], live)
			}
		})
	}
}

// whenAsked is a context that does something when it is asked whether it is done.
type whenAsked struct {
	context.Context
	do func()
}

func (c whenAsked) Err() error {
	c.do()
	return c.Context.Err()
}

// TestFailedAhead: after a run that the device was not given, the next one still waits for those before it, and writes
// no inputs that they read.
func TestFailedAhead(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n, slowly = 1 << 14, 1 << 18
			before, exe := slow(t, slowly, 400).load(d), counter(t, n).load(d)
			opt := runtime.RunOptions{Keep: []string{"twice"}}
			busy := must(before.Run(t.Context(), inputs(ramp(1, slowly)), opt))(t).Kept["twice"]
			defer busy.Close()
			first := must(exe.Run(t.Context(), inputs(ramp(1, n)), opt))(t).Kept["twice"]
			defer first.Close()

			own := must(exe.NewStates())(t)
			opt.States = own
			asked := 0
			closeLate := func() { // the arguments are checked the first time
				if asked++; asked == 2 {
					own.Close()
				}
			}
			_, err := exe.Run(whenAsked{t.Context(), closeLate}, inputs(ramp(5, n)), opt)
			wantError(t, err, "submit", "closed")

			both := ramp(1, n)
			for i, x := range ramp(1000, n) {
				both[i] += x
			}
			r := runProgram(t, exe, inputs(ramp(1000, n)), runtime.RunOptions{})
			expect(t, "twice of both", r.Outputs["twice"], scaled(both, 2))
			expect(t, "twice of the first", must(first.Read(t.Context()))(t), scaled(ramp(1, n), 2))
		})
	}
}

// TestSynchronousRunsBound: kernels of a synchronous run read a device tensor directly from the second run with it on.
// Further runs with it record nothing, also after runs with inputs from the host.
func TestSynchronousRunsBound(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			const n = 100
			exe := counter(t, n).load(vktest.Device(t, options))
			x := must(exe.Upload(t.Context(), inputs(ramp(1, n))["x"]))(t)
			defer x.Close()
			sum := make([]float32, n)
			for i := range 6 {
				in, opt := inputs(ramp(1, n)), runtime.RunOptions{}
				if i%3 > 0 {
					in, opt.Inputs = nil, map[string]*runtime.DeviceTensor{"x": x}
				}
				for j := range sum {
					sum[j] += 2 * float32(1+j)
				}
				expect(t, "twice", runProgram(t, exe, in, opt).Outputs["twice"], sum)
				if have, want := exe.Stats().Recordings, 1+min(i/2, 1); have != want {
					t.Errorf("%d recordings after run %d; want %d", have, i, want)
				}
			}
		})
	}
}
