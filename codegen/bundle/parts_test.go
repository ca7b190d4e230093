package bundle

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// listed is a weightMap that can list its names.
type listed struct{ weightMap }

func (listed) Names() []string { return []string{"unused", "w"} }

// model is tiny as the bundle of a model with another program.
func model(t testing.TB) *Contents {
	t.Helper()
	c, part := tiny(t), tiny(t)
	part.Weights, part.GLSL = nil, nil
	c.Model, c.Parts, c.Weights = []byte("what the file says"), []*Contents{part, part}, listed{c.Weights.(weightMap)}
	return c
}

// TestParts: a model's bundle has the metadata of its file, its other programs, and all weights of the source, signed
// or not.
func TestParts(t *testing.T) {
	for _, key := range []ed25519.PrivateKey{nil, testKey} {
		c := model(t)
		c.Sign = key
		f, err := Read(encoded(t, c))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Verify(); err != nil {
			t.Error(err)
		}
		parts := f.Parts()
		if string(f.Model()) != string(c.Model) || len(parts) != 2 || !bytes.Equal(parts[1].SPIRV()[0], c.SPIRV[0]) ||
			parts[1].HasWeights() || parts[1].GLSL() != nil {
			t.Errorf("model %q, parts %v", f.Model(), parts)
		}
		if want := []string{"bias", "w", "only graph", "unused"}; !slices.Equal(f.WeightNames(), want) {
			t.Errorf("weights %q, want %q", f.WeightNames(), want)
		}
		if d, err := f.Weight("unused"); err != nil || !bytes.Equal(d.Bytes, data(t, ir.F32, 7, 1000).Bytes) {
			t.Errorf("a weight of the file alone: %v", err)
		}
	}
}

// TestSignedParts: a signature is over parts too.
func TestSignedParts(t *testing.T) {
	c := model(t)
	c.Sign = testKey
	list := sectionsOf(t, encoded(t, c))
	for i := range list {
		if list[i].kind == KindModel || list[i].kind == KindPart {
			forged := slices.Clone(list)
			forged[i].content = append([]byte(nil), list[0].content...)
			if forged[i].kind == KindPart {
				other := tiny(t)
				other.Weights, other.Meta.Source = nil, "forged"
				forged[i].content = encoded(t, other)
			}
			if _, err := Read(assembled(t, forged)); err == nil || !strings.Contains(err.Error(), "signature") {
				t.Errorf("section %d: %v", i, err)
			}
		}
	}
}

func TestPartsRefused(t *testing.T) {
	whole, inner := sectionsOf(t, encoded(t, model(t))), encoded(t, model(t))
	set := func(at int, to readySection) []byte {
		list := slices.Clone(whole)
		list[at] = to
		return assembled(t, list)
	}
	last := len(whole) - 1
	for want, b := range map[string][]byte{
		"may be a program only": set(last, readySection{KindPart, 1, inner}),
		"want part 0 here":      assembled(t, slices.Delete(slices.Clone(whole), last-1, last)),
		"not a vkc bundle":      set(last, readySection{KindPart, 1, []byte("x")}),
	} {
		if _, err := Read(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(*Contents){
		"part 1: ":    func(c *Contents) { c.Parts[1] = &Contents{} },
		"is missing":  func(c *Contents) { c.Parts[1] = nil },
		"65 parts":    func(c *Contents) { c.Parts = slices.Repeat(c.Parts[:1], maxParts+1) },
		"than a prog": func(c *Contents) { c.Parts[0].Weights = c.Weights },
		"no weight":   func(c *Contents) { delete(c.Weights.(listed).weightMap, "unused") },
	} {
		c := model(t)
		change(c)
		if _, err := Encode(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPartIsProgram: a part has the sections of a program. Each of the others is refused by its name.
func TestPartIsProgram(t *testing.T) {
	whole, part := sectionsOf(t, encoded(t, model(t))), tiny(t)
	part.Weights, part.GLSL = nil, nil
	program := sectionsOf(t, encoded(t, part))
	for kind := KindMeta; kind < numKinds; kind++ {
		list := append(slices.Clone(program), readySection{kind, 0, []byte("x")})
		if kind < KindData {
			list = program
		}
		whole[len(whole)-1].content = assembled(t, list)
		_, err := Read(assembled(t, whole))
		if want := "it has a section " + kind.String() + ", and may be a program only"; kind < KindData && err != nil ||
			kind >= KindData && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a part with a section %s: %v", kind, err)
		}
	}
}

// FuzzPart fuzzes a part and a model's metadata.
func FuzzPart(f *testing.F) {
	whole := sectionsOf(f, encoded(f, model(f)))
	f.Add(whole[len(whole)-1].content, []byte("x"))
	f.Fuzz(func(t *testing.T, part, model []byte) {
		list := slices.Clone(whole)
		list[len(list)-1].content, list[len(list)-3].content = part, model
		file, err := Read(assembled(t, list))
		if err != nil {
			return
		}
		for _, p := range file.Parts() {
			if p.HasWeights() || p.Parts() != nil || p.Model() != nil {
				t.Error("a part is more than a program")
			}
		}
	})
}
