package collective_test

import (
	"os"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// TestCollectives has three devices exchange values by each op, several times in a run, and compares with sums in the
// order of ranks, bit for bit.
func TestCollectives(t *testing.T) {
	for _, list := range []string{"cpu,cpu,cpu", "vulkan,vulkan,vulkan"} {
		devices, err := vkc.OpenDevices(list)
		vktest.Need(t, err)
		defer devices.Close()
		onVulkan := vk.Of(devices[0]) != nil
		if onVulkan {
			devtest.NeedTools(t)
		}
		const rows, columns = 3, 700 // more than a workgroup has, and no whole number of them
		room := mailbox.SlotWords(3, []int{rows * columns, rows * columns, rows * columns}, false)
		memory, address := make([]uint32, mailbox.Header+room), [3]uint64{}
		if onVulkan {
			host, err := vk.NewHostBuffer([]*vk.Device{vk.Of(devices[0]), vk.Of(devices[1]), vk.Of(devices[2])},
				len(memory))
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			memory = host.Words()
			for i := range address {
				address[i] = host.Address(i)
			}
		}
		box, err := mailbox.New(memory, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		g := collectivesGraph(t, rows, columns)
		all, err := vkc.Values[float32](devtest.Noise(t, 3, rows, columns))
		if err != nil {
			t.Fatal(err)
		}
		var want []float32 // the sum
		for i := range rows * columns {
			want = append(want, all[i]+all[rows*columns+i]+all[2*rows*columns+i])
		}
		var done sync.WaitGroup
		for rank, d := range devices {
			exe, err := d.LoadGraph(t.Context(), g, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			own, err := vkc.Of(all[rank*rows*columns:(rank+1)*rows*columns], rows, columns)
			if err != nil {
				t.Fatal(err)
			}
			at := mailbox.Addresses{Memory: address[rank], Flags: address[rank]}
			link := box.Link(rank, 1, 0, at, mailbox.TriesWaiting)
			l, err := vkc.Of(link[:], len(link))
			if err != nil {
				t.Fatal(err)
			}
			done.Add(1)
			in := vkc.Tensors{"x": own, "link": l}
			go func() {
				defer done.Done()
				r, err := exe.Run(t.Context(), in)
				if err != nil {
					box.Stop()
					t.Errorf("on %s, rank %d: %v", list, rank, err)
					return
				}
				for name, values := range map[string][]float32{"sum": want, "all": all,
					"part": want[rank*columns : (rank+1)*columns]} {
					have, err := vkc.Values[float32](r.Outputs[name])
					if err != nil || len(have) != len(values) {
						t.Errorf("on %s, rank %d: %s has %d values, want %d (%v)", list, rank, name, len(have),
							len(values), err)
						return
					}
					for i := range values {
						if have[i] != values[i] {
							t.Errorf("on %s, rank %d: %s[%d] is %g, want %g", list, rank, name, i, have[i], values[i])
							return
						}
					}
				}
			}()
		}
		done.Wait()
	}
}

// collectivesGraph takes x through each collective.
func collectivesGraph(t *testing.T, rows, columns int) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("collectives", func(b *frontend.Builder) {
		x, link := b.Input("x", ir.F32, rows, columns), b.Input("link", ir.U32, mailbox.LinkWords)
		meet := func(name string) frontend.Tensor {
			op, err := ir.ParseOp("vkc." + name)
			give, errGive := ir.ParseOp("vkc.give")
			if err != nil || errGive != nil {
				t.Fatal(err, errGive)
			}
			shards := frontend.Attr("shards", 3)
			given := frontend.CustomOp(give, []frontend.Tensor{x, link}, shards)
			both := frontend.CustomOps(op, []frontend.Tensor{x, given}, shards)
			link = both[1]
			return both[0]
		}
		b.Output("sum", meet("all_reduce"))
		b.Output("all", meet("all_gather"))
		b.Output("part", meet("reduce_scatter"))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
