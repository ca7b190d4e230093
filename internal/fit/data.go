package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/tunefile"
)

// dataset has the measurements of one device. Its text has one line per fact, with fields separated by tabs:
//
//	device   name, driver, cores, copy GB/s, f16, i8 and f32 peak rates, launch ns
//	tile     table, name; later lines refer to the tiles by their numbers, from 0
//	kernel   label, default variant, default us, best us, and for kernels in tiles their traits
//	+        tile number, workgroups, operations of a workgroup, slowdown, us; of the kernel above
type dataset struct {
	device, driver string
	cores          int64
	machine        device.Machine
	kernels        []measured
}

// measured is one kernel with its measured tiles.
type measured struct {
	label, standard string
	first, best     float64 // microseconds of the default, and of the fastest schedule
	traits          schedule.Traits
	tiles           []timed
}

// timed is one measured schedule in a tile.
type timed struct {
	schedule.Rated
	micros float64
}

// keep is the ratio to the fastest time up to which the data keep a tile that no table has.
const keep = 1.3

// disturbed is the ratio to the fastest time from which the data leave a tile out. Such times come from the first round
// of a race, in which the device may have run at a lower clock than in the later rounds of the others.
const disturbed = 2.5

// fromTuning converts a file of vkc tune, measured on a device with that many cores, to a dataset. It leaves out
// kernels without a default or a best time, schedules that rates do not describe, and disturbed times.
func fromTuning(f *tunefile.File, cores int64) *dataset {
	d := &dataset{device: f.Device, driver: f.Driver, cores: cores, machine: f.Machine}
	rates, _ := schedule.NVIDIARates()
	for _, k := range f.Kernels {
		if k.Best == nil || k.Default == 0 {
			continue
		}
		m := measured{label: k.About, standard: string(k.Standard), first: k.Default, best: k.Default}
		for _, x := range k.Measured { // a schedule that was not timed has 0
			if x.Micros > 0 {
				m.best = min(m.best, x.Micros)
			}
		}
		for _, x := range k.Measured {
			if k.Traits == nil || x.Rated == nil || x.Micros == 0 || x.Micros > disturbed*m.best {
				continue
			}
			m.traits = *k.Traits
			// The fit needs times of tiles that have a rate. Of others the fast ones stay, in case they get a rate
			// later.
			known := slices.ContainsFunc(rates, func(r schedule.TileRate) bool { return r.Suits(m.traits, *x.Rated) })
			if known || x.Micros <= keep*m.best {
				m.tiles = append(m.tiles, timed{*x.Rated, x.Micros})
			}
		}
		d.kernels = append(d.kernels, m)
	}
	slices.SortStableFunc(d.kernels, func(a, b measured) int { return cmp.Compare(a.label, b.label) })
	return d
}

// digits formats a number with four digits.
func digits(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// text encodes the dataset as the text that its type describes.
func (d *dataset) text() []byte {
	var b bytes.Buffer
	m := d.machine
	fmt.Fprintf(&b, "device\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", d.device, d.driver, d.cores, digits(m.CopyGBps),
		digits(m.MatrixF16), digits(m.MatrixI8), digits(m.VectorF32), digits(m.LaunchNs))
	number := map[string]int{} // of each tile, from 1: 0 is a tile without a line
	for _, k := range d.kernels {
		for _, t := range k.tiles {
			if name := string(t.Table) + "\t" + t.Tile; number[name] == 0 {
				number[name] = len(number) + 1
				fmt.Fprintf(&b, "tile\t%s\n", name)
			}
		}
	}
	for _, k := range d.kernels {
		fmt.Fprintf(&b, "kernel\t%s\t%s\t%s\t%s", k.label, k.standard, digits(k.first), digits(k.best))
		if t := k.traits; t.MatMuls > 0 {
			fmt.Fprintf(&b, "\t%d\t%d\t%t\t%t\t%s\t%s", t.Rows, t.MatMuls, t.Blocks, t.Runs, digits(t.ReadNs),
				digits(t.StoreNs))
		}
		b.WriteByte('\n')
		for _, t := range k.tiles {
			fmt.Fprintf(&b, "+\t%d\t%d\t%s\t%s\t%s\n", number[string(t.Table)+"\t"+t.Tile]-1, t.Groups,
				strconv.FormatFloat(t.Flops, 'f', -1, 64), digits(t.Slow), digits(t.micros))
		}
	}
	return b.Bytes()
}

// read reads the datasets of all devices, the text files of a folder.
func read(dir fs.FS) (sets []*dataset, err error) {
	names, err := fs.Glob(dir, "*.txt")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		d, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sets = append(sets, d)
	}
	return sets, nil
}

// fields reads the fields of a line in order, and keeps the first error.
type fields struct {
	list []string
	err  error
}

func (f *fields) next() string {
	if len(f.list) == 0 {
		f.err = cmp.Or(f.err, fmt.Errorf("too few fields"))
		return ""
	}
	s := f.list[0]
	f.list = f.list[1:]
	return s
}

func (f *fields) float() float64 {
	x, err := strconv.ParseFloat(f.next(), 64)
	f.err = cmp.Or(f.err, err)
	return x
}

func (f *fields) int() int64 {
	n, err := strconv.ParseInt(f.next(), 10, 64)
	f.err = cmp.Or(f.err, err)
	return n
}

func (f *fields) bool() bool {
	v, err := strconv.ParseBool(f.next())
	f.err = cmp.Or(f.err, err)
	return v
}

// parse decodes the text of a dataset, which method text encodes.
func parse(text []byte) (*dataset, error) {
	d := &dataset{}
	var tiles []schedule.Rated
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		f := &fields{list: strings.Split(lines.Text(), "\t")}
		switch kind := f.next(); {
		case kind == "device":
			d.device, d.driver, d.cores = f.next(), f.next(), f.int()
			d.machine = device.Machine{CopyGBps: f.float(), MatrixF16: f.float(), MatrixI8: f.float(),
				VectorF32: f.float(), LaunchNs: f.float()}
		case kind == "tile":
			tiles = append(tiles, schedule.Rated{Table: schedule.RateTable(f.next()), Tile: f.next()})
		case kind == "kernel":
			k := measured{label: f.next(), standard: f.next(), first: f.float(), best: f.float()}
			if len(f.list) > 0 { // only kernels in tiles have traits
				k.traits = schedule.Traits{Rows: f.int(), MatMuls: int(f.int()), Blocks: f.bool(), Runs: f.bool(),
					ReadNs: f.float(), StoreNs: f.float()}
			}
			d.kernels = append(d.kernels, k)
		case kind == "+" && len(d.kernels) > 0:
			i := f.int()
			if i < 0 || i >= int64(len(tiles)) {
				return nil, fmt.Errorf("line %d: tile %d of %d", n, i, len(tiles))
			}
			t := timed{Rated: tiles[i]}
			t.Groups, t.Flops, t.Slow, t.micros = f.int(), f.float(), f.float(), f.float()
			k := &d.kernels[len(d.kernels)-1]
			k.tiles = append(k.tiles, t)
		default:
			f.err = fmt.Errorf("unknown kind %q", kind)
		}
		if f.err == nil && len(f.list) > 0 {
			f.err = fmt.Errorf("too many fields")
		}
		if f.err != nil {
			return nil, fmt.Errorf("line %d: %w", n, f.err)
		}
	}
	return d, lines.Err()
}
