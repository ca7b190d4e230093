package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// file builds a version 1 file from a dict and elements.
func file(dict string, elems ...byte) []byte {
	b := binary.LittleEndian.AppendUint16([]byte(magic+"\x01\x00"), uint16(len(dict)))
	return append(append(b, dict...), elems...)
}

func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func checkData(t *testing.T, got, want *ir.Data) {
	t.Helper()
	if got.DType != want.DType || !slices.Equal(got.Dims, want.Dims) || !bytes.Equal(got.Bytes, want.Bytes) {
		t.Errorf("got %v %x, want %v %x", got, got.Bytes, want, want.Bytes)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, row := range dtypes {
		for _, dims := range [][]int{{}, {0}, {3}, {2, 3}, {1, 2, 1, 2, 1, 2, 1, 2}} {
			d, err := ir.NewData(row.dtype, dims...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range d.Bytes {
				d.Bytes[i] = byte(i) & 1
			}
			path := filepath.Join(t.TempDir(), "a.npy")
			if err := WriteFile(path, d); err != nil {
				t.Fatal(err)
			}
			got, err := ReadFile(path)
			if err != nil {
				t.Fatalf("%v: %v", d, err)
			}
			checkData(t, got, d)
		}
	}
}

// TestWritesTheFormat compares with headers written out by hand as numpy.lib.format
// describes them, so that an error common to reader and writer would show.
func TestWritesTheFormat(t *testing.T) {
	for _, c := range []struct {
		dims []int
		dict string
	}{
		{[]int{}, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"},
		{[]int{3}, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"},
		{[]int{2, 3}, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"},
	} {
		d, err := ir.NewData(ir.F32, c.dims...)
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if err := Write(&buf, d); err != nil {
			t.Fatal(err)
		}
		padded := c.dict + strings.Repeat(" ", 128-10-1-len(c.dict)) + "\n"
		if want := append(file(padded), d.Bytes...); !bytes.Equal(buf.Bytes(), want) {
			t.Errorf("%v: got %q, want %q", d, buf.Bytes(), want)
		}
	}
}

func TestReadsOtherSpellings(t *testing.T) {
	const dict = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}"
	one := []byte{1, 0, 0, 0}
	v2 := append(append([]byte(magic+"\x02\x00"), byte(len(dict)), 0, 0, 0), dict...)
	v3 := append(append([]byte(magic+"\x03\x00"), byte(len(dict)), 0, 0, 0), dict...)
	for name, content := range map[string][]byte{
		"version 1":     file(dict, one...),
		"version 2":     append(v2, one...),
		"version 3":     append(v3, one...),
		"other order":   file(`{"shape":(1,),"fortran_order":True,"descr":"<i4"}`, one...),
		"spaces":        file("{ 'shape' : ( 1 , ) , 'fortran_order' : False , 'descr' : '<i4' , } \n", one...),
		"no final line": file(dict, one...),
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Read(content)
			if err != nil {
				t.Fatal(err)
			}
			checkData(t, d, &ir.Data{DType: ir.I32, Dims: []int{1}, Bytes: one})
		})
	}
	d, err := Read(file("{'descr': '<i1', 'fortran_order': False, 'shape': ()}", 5))
	if err != nil {
		t.Fatalf("a one-byte type with an order: %v", err)
	}
	checkData(t, d, &ir.Data{DType: ir.I8, Bytes: []byte{5}})
}

func TestFortranOrder(t *testing.T) {
	for _, dims := range [][]int{{5}, {2, 3}, {2, 3, 4}, {3, 1, 2}} {
		var shape []string
		n := 1
		for _, d := range dims {
			shape = append(shape, string(rune('0'+d)))
			n *= d
		}
		d, err := Read(file("{'descr': '<i4', 'fortran_order': True, 'shape': ("+strings.Join(shape, ",")+",)}",
			counting(4*n)...))
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			// Element i in C order has the index of i's mixed-radix digits, which
			// count from the front in Fortran order.
			from, rest, stride := 0, i, n
			for axis := len(dims) - 1; axis >= 0; axis-- {
				stride /= dims[axis]
				from += rest % dims[axis] * stride
				rest /= dims[axis]
			}
			if got, want := d.Bytes[4*i], byte(4*from); got != want {
				t.Errorf("dims %v element %d: got the one at byte %d, want %d", dims, i, got, want)
			}
		}
	}
}

func TestReadRefuses(t *testing.T) {
	dict := func(descr, shape string) string {
		return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}"
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"empty":            {nil, "does not begin with the magic"},
		"magic":            {[]byte("PK\x03\x04    "), "does not begin with the magic"},
		"version":          {[]byte(magic + "\x04\x00\x00\x00"), "at byte 6: version is 4"},
		"length cut":       {[]byte(magic + "\x02\x00\x00\x00"), "inside the header length"},
		"length":           {[]byte(magic + "\x01\x00\x05\x00{}"), "is 5, but 2 bytes are left"},
		"length huge":      {[]byte(magic + "\x02\x00\xff\xff\xff\xff{}"), "want at most 65536"},
		"not a dict":       {file("[]"), "want '{'"},
		"header ends":      {file("{'descr': '<f4'"), "the header ends: want ',' or '}'"},
		"goes on":          {file(dict("'<f4'", "()")+" x", 0, 0, 0, 0), "want nothing after the dict"},
		"key missing":      {file("{'descr': '<f4', 'shape': ()}"), `has no "fortran_order"`},
		"key twice":        {file("{'descr': '<f4', 'descr': '<f4'}"), `has "descr" twice`},
		"key unknown":      {file("{'order': 1}"), `has "order"`},
		"key no string":    {file("{descr: '<f4'}"), "want a quoted string"},
		"string ends":      {file("{'descr"), "does not end"},
		"escape":           {file(`{'de\x73cr': 1}`), "does not end"},
		"no colon":         {file("{'descr' '<f4'}"), "want ':'"},
		"bool":             {file("{'fortran_order': 0}"), "want True or False"},
		"shape a number":   {file(dict("'<f4'", "3")), "want '('"},
		"shape no tuple":   {file(dict("'<f4'", "(3)")), "want a tuple, (3,)"},
		"shape list":       {file(dict("'<f4'", "[3]")), "want '('"},
		"shape negative":   {file(dict("'<f4'", "(-1,)")), `"-1,)}": want an integer`},
		"shape long":       {file(dict("'<f4'", "(3L,)")), "want an integer"},
		"shape no comma":   {file(dict("'<f4'", "(3 4)")), "want ',' or ')'"},
		"shape two commas": {file(dict("'<f4'", "(3,,)")), "want an integer"},
		"shape rank":       {file(dict("'<f4'", "(1,1,1,1,1,1,1,1,1)")), "more than 8 axes"},
		"shape ends":       {file("{'shape': (1,"), "want an integer"},
		"axis huge":        {file(dict("'<f4'", "(9223372036854775808,)")), "want an integer"},
		"elements huge":    {file(dict("'<f4'", "(1073741824, 1073741824, 1073741824)")), "more elements than can be counted"},
		"bytes huge":       {file(dict("'<f8'", "(1073741824, 1073741824, 2)")), "bytes"},
		"too short":        {file(dict("'<f4'", "(2,)"), counting(7)...), "f32[2] takes 8 bytes, but 7 follow"},
		"too long":         {file(dict("'<f4'", "(2,)"), counting(9)...), "f32[2] takes 8 bytes, but 9 follow"},
		"big-endian":       {file(dict("'>f4'", "(1,)"), 0, 0, 0, 0), `big-endian (>f4): load the array in NumPy and save it again with a.astype("<f4")`},
		"bfloat16":         {file(dict("'|V2'", "(1,)"), 0, 0), "how bfloat16 is saved"},
		"bfloat16 order":   {file(dict("'<V2'", "(1,)"), 0, 0), "how bfloat16 is saved"},
		"complex":          {file(dict("'<c8'", "(1,)"), counting(8)...), `"<c8" is not supported: want one of <f4 <f2`},
		"no descr":         {file(dict("''", "(1,)")), `"" is not supported`},
		"records":          {file(dict("[('x', '<f4')]", "(1,)"), 0, 0, 0, 0), "are records"},
		"bool value":       {file(dict("'|b1'", "(2,)"), 1, 2), "a bool is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(c.content)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if e := new(filefmt.Error); !errors.As(err, &e) {
				t.Errorf("%v has no position", err)
			}
		})
	}
}

func TestReadFileNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.npy")
	if err := os.WriteFile(path, []byte("PK"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.HasPrefix(err.Error(), "npy: "+path+": at byte 0: ") {
		t.Errorf("got %v, want the path and the position first", err)
	}
	if _, err := ReadFile(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: got %v, want os.ErrNotExist", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	for _, c := range []struct {
		data *ir.Data
		want string
	}{
		{&ir.Data{DType: ir.BF16, Bytes: make([]byte, 2)}, "no type for bf16: cast to f32"},
		{&ir.Data{DType: ir.Q4_0, Dims: []int{32}, Bytes: make([]byte, 18)}, "no type for q4_0 blocks: dequantize"},
		{&ir.Data{DType: ir.F32, Bytes: make([]byte, 3)}, "needs 4 bytes, have 3"},
	} {
		if err := WriteFile(path, c.data); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%v: got %v, want an error with %q and the path", c.data, err, c.want)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a refused write left a file (%v)", err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, t := range []ir.DType{ir.F32, ir.Bool, ir.I64} {
		d, err := ir.NewData(t, 2, 3)
		if err != nil {
			f.Fatal(err)
		}
		var buf bytes.Buffer
		if err := Write(&buf, d); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
		f.Add(buf.Bytes()[:len(buf.Bytes())/2])
	}
	f.Add(file("{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3)}", counting(12)...))
	f.Add(file("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, content []byte) {
		d, err := Read(content)
		if err != nil {
			if e := new(filefmt.Error); !errors.As(err, &e) || e.Pos < 0 || e.Pos > int64(len(content)) {
				t.Fatalf("%v: want a position inside the %d bytes", err, len(content))
			}
			return
		}
		var buf bytes.Buffer
		if err := Write(&buf, d); err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		again, err := Read(buf.Bytes())
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		checkData(t, again, d)
	})
}

// TestDTypesNumPyLacks writes tensors of such dtypes in wider ones, and reads them back.
func TestDTypesNumPyLacks(t *testing.T) {
	for _, c := range []struct {
		t      ir.DType
		values []float64
		held   ir.DType
	}{
		{ir.I4, []float64{-8, 7, 1}, ir.I8}, {ir.U2, []float64{3, 0, 2, 1, 1}, ir.U8}, {ir.BF16, []float64{1.5, -2}, ir.F32},
		{ir.F4E2M1, []float64{0.5, -6, 3}, ir.F32}, {ir.F8E8M0, []float64{0x1p-127, 4}, ir.F32}, {ir.I64, []float64{5}, ir.I64},
	} {
		d, err := ir.FromFloats(c.t, c.values, len(c.values))
		if err != nil {
			t.Fatal(err)
		}
		held, err := Held(d)
		if err != nil || held.DType != c.held {
			t.Errorf("%s is held as %v, %v, want %s", d, held, err, c.held)
			continue
		}
		if back, err := As(held, c.t); err != nil || string(back.Bytes) != string(d.Bytes) {
			t.Errorf("%s reads back as %v, %v", d, back, err)
		}
	}
	wide, _ := ir.FromInts(ir.I8, []int64{1, 8}, 2)
	if d, err := As(wide, ir.I4); err == nil || err.Error() != "element 1 is 8: want an i4, -8 to 7" {
		t.Errorf("have %v, %v", d, err)
	}
	if d, err := As(wide, ir.F4E2M1); err == nil {
		t.Errorf("integers became %s", d)
	}
}
