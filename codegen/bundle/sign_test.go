package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// testKey is the first test vector of RFC 8032.
var testKey = ed25519.NewKeyFromSeed(unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// signed is small, signed.
func signed(t testing.TB) []byte {
	c := tiny(t)
	c.Sign = testKey
	return encoded(t, c)
}

func TestSignedBundle(t *testing.T) {
	f, err := Read(signed(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(); err != nil {
		t.Fatal(err)
	}
	other := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	if !public(testKey).Equal(f.Signer()) {
		t.Errorf("signed by %x", f.Signer())
	}
	if err := f.SignedBy([]ed25519.PublicKey{public(other), public(testKey)}); err != nil {
		t.Errorf("signed by the second of two keys: %v", err)
	}
	for _, trusted := range [][]ed25519.PublicKey{nil, {public(other)}} {
		if err := f.SignedBy(trusted); err == nil || !strings.Contains(err.Error(), "none of the") {
			t.Errorf("trusting others: %v", err)
		}
	}
	plain, err := Read(small(t))
	if err != nil {
		t.Fatal(err)
	}
	if plain.Signer() != nil {
		t.Error("a bundle without a signature has a signer")
	}
	if err := plain.SignedBy([]ed25519.PublicKey{public(testKey)}); err == nil ||
		!strings.Contains(err.Error(), "is not signed") {
		t.Errorf("not signed: %v", err)
	}
	if !bytes.Equal(signed(t), signed(t)) {
		t.Error("equal contents give different signed bundles")
	}
}

// TestSignedVector is the example of docs/BUNDLE.md: the digest of sections, put
// together here in another way, and its signature.
func TestSignedVector(t *testing.T) {
	meta, data := []byte("meta"), make([]byte, chunkSize+1)
	first, second := sha256.Sum256(data[:chunkSize]), sha256.Sum256(data[chunkSize:])
	sums := append(first[:], second[:]...)
	sections := []Section{
		{Kind: KindMeta, Length: 4, SHA256: sha256.Sum256(meta)},
		{Kind: KindSPIRV, Index: 1, Length: 4, SHA256: sha256.Sum256(meta)},
		{Kind: KindData, Length: int64(len(data))},
	}
	var message []byte
	for _, s := range []struct {
		kind, index uint32
		length      uint64
		content     []byte
	}{{1, 0, 4, meta}, {4, 1, 4, meta}, {6, 0, chunkSize + 1, sums}} {
		message = binary.LittleEndian.AppendUint32(message, s.kind)
		message = binary.LittleEndian.AppendUint32(message, s.index)
		message = binary.LittleEndian.AppendUint64(message, s.length)
		sum := sha256.Sum256(s.content)
		message = append(message, sum[:]...)
	}
	digest := sha256.Sum256(message)
	if have := signedDigest(sections, sums); !bytes.Equal(have, digest[:]) {
		t.Errorf("digest %x, want %x", have, digest)
	}
	have := sign(testKey, sections, sums)
	const wantDigest, wantSignature = "3edd02dec13f73feb267cee615a64e46bd416de5bef8ad219f2735a02b6edcf3",
		"94c412ebdc7e4cd1f68292424b4b20db1bbae4a9a3df9d179034fce548d908f2" +
			"4fa58e3511ed2ef87e698193ef31e6547d3bb7d2a9e8c4d35625b3986c1c300f"
	if hex.EncodeToString(digest[:]) != wantDigest || hex.EncodeToString(have.Signature) != wantSignature {
		t.Errorf("digest %x, signature %x; want %s, %s", digest, have.Signature, wantDigest, wantSignature)
	}
	if err := have.check(sections); err != nil {
		t.Error(err)
	}
}

// TestSumsOfAllChunks: a signature without a sum of each chunk is refused, even if its key signed just that.
func TestSumsOfAllChunks(t *testing.T) {
	for _, chunks := range []int64{0, 1, 2, 3} {
		sections := []Section{{Kind: KindMeta, Length: 4}}
		if chunks > 0 {
			sections = append(sections, Section{Kind: KindData, Length: (chunks-1)*chunkSize + 1})
		}
		for size := range 5 * sha256.Size {
			s := sign(testKey, sections, make([]byte, size))
			err := s.check(sections)
			if whole := int64(size) == chunks*sha256.Size; whole != (err == nil) ||
				err != nil && !strings.Contains(err.Error(), "bytes of checksums for") {
				t.Errorf("%d bytes of sums for %d chunks: %v", size, chunks, err)
			}
		}
	}
}

// TestEverySignedFlip is TestEveryFlip of a signed bundle.
func TestEverySignedFlip(t *testing.T) {
	b := signed(t)
	for bit := range 8 * len(b) {
		i, mask := bit/8, byte(1)<<(bit%8)
		b[i] ^= mask
		f, err := Read(b)
		if err == nil {
			err = f.Verify()
		}
		if err == nil {
			t.Errorf("byte %d of %d changed by %#x: not noticed", i, len(b), mask)
		}
		b[i] ^= mask
	}
}

// TestForgery changes a bundle and corrects all checksums, as an attacker would. Only the signature detects it.
func TestForgery(t *testing.T) {
	b := signed(t)
	f, err := Read(slices.Clone(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Sections() {
		if s.Kind == KindSignature || s.Kind == KindIndex || s.Length == 0 {
			continue
		}
		forged := forge(t, b, s)
		g, err := Read(forged)
		if err == nil && s.Kind == KindData {
			_, err = g.Weight(g.WeightNames()[0])
		}
		if err == nil || !strings.Contains(err.Error(), "sign") {
			t.Errorf("section %s forged: %v, want an error about the signature", s, err)
		}
		if g, err := Read(forge(t, small(t), s)); s.Kind == KindData && (err != nil || g.Verify() != nil) {
			t.Errorf("the forgery of section %s is not whole, so it proves nothing: %v", s, err)
		}
	}
}

// forge changes the last byte of a section in a way that keeps it readable, and
// all the checksums that cover it.
func forge(t *testing.T, b []byte, s Section) []byte {
	t.Helper()
	b = slices.Clone(b)
	sections, err := decodeHead(b)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(sections, func(o Section) bool { return o.Kind == s.Kind && o.Index == s.Index })
	s = sections[i]
	last := b[s.end()-1 : s.end()]
	switch s.Kind {
	case KindData:
		last[0] ^= 1
	case KindSPIRV: // in the string
		b[s.Offset+4*20] ^= 1
	case KindGLSL:
		last[0] = ' '
	default: // JSON: a letter in a name
		at := bytes.Index(b[s.Offset:s.end()], []byte("tiny"))
		b[s.Offset+int64(at)] = 'T'
	}
	if s.Kind != KindData {
		sections[i].SHA256 = sha256.Sum256(b[s.Offset:s.end()])
	} else {
		j := i + 1
		var idx index
		at := b[sections[j].Offset:sections[j].end()]
		if err := json.Unmarshal(at, &idx); err != nil {
			t.Fatal(err)
		}
		sums := chunkSums{}
		sums.add(b[s.Offset:s.end()])
		sums.finish()
		idx.CRC32C = sums.crcs
		text, err := json.Marshal(idx)
		if err != nil || len(text) != len(at) {
			t.Fatalf("%d bytes for %d, %v", len(text), len(at), err)
		}
		copy(at, text)
		sections[j].SHA256 = sha256.Sum256(at)
	}
	copy(b, encodeHead(sections, int64(len(b))))
	return b
}

// TestSign signs a bundle that is there, with and without weights, and again.
func TestSign(t *testing.T) {
	dir := t.TempDir()
	other := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	for name, weights := range map[string]ir.WeightSource{"with": tiny(t).Weights, "without": nil} {
		path, out := filepath.Join(dir, name+".vkb"), filepath.Join(dir, name+"-signed.vkb")
		c := tiny(t)
		c.Weights = weights
		if err := Write(path, c); err != nil {
			t.Fatal(err)
		}
		if err := Sign(path, out, other); err != nil {
			t.Fatal(err)
		}
		if err := Sign(out, out, testKey); err != nil {
			t.Fatal(err)
		}
		c.Sign = testKey
		have, err := os.ReadFile(out)
		if want := encoded(t, c); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s weights: signing afterwards gives %d bytes, signing at once %d, or others (%v)", name,
				len(have), len(want), err)
		}
	}
	damaged := small(t)
	f, err := Read(slices.Clone(damaged))
	if err != nil {
		t.Fatal(err)
	}
	damaged[f.Sections()[len(f.Sections())-2].Offset] ^= 1
	path, out := filepath.Join(dir, "damaged.vkb"), filepath.Join(dir, "out.vkb")
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Sign(path, out, testKey); err == nil {
		t.Error("a damaged bundle was signed")
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key.pem")
	made, err := WriteKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	private, err := ReadPrivateKey(path)
	if err != nil || !public(private).Equal(made) {
		t.Errorf("the private key comes back as another: %v", err)
	}
	trusted, err := ReadPublicKeys(path + ".pub")
	if err != nil || len(trusted) != 1 || !trusted[0].Equal(made) {
		t.Errorf("the public key comes back as %x, %v", trusted, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read the private key: %v, %v", info.Mode(), err)
	}
	if _, err := WriteKeys(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key was overwritten: %v", err)
	}
	// As openssl prints the key of RFC 8032.
	const vector = `for people
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
`
	write := func(content string) string {
		name := filepath.Join(dir, "x")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	two, err := ReadPublicKeys(write(vector + vector))
	if err != nil || len(two) != 2 || !two[1].Equal(public(testKey)) {
		t.Errorf("the key of RFC 8032: %x, %v", two, err)
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		"":                      "no \"PUBLIC KEY\"",
		"text":                  "no \"PUBLIC KEY\"",
		vector + string(secret): "holds a \"PRIVATE KEY\"",
		"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n": "key 1",
		strings.Repeat("x", maxKeyFile+1):                              "more than",
	} {
		if _, err := ReadPublicKeys(write(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", content, err, want)
		}
	}
	if _, err := ReadPrivateKey(write(vector)); err == nil {
		t.Error("a public key was taken to sign with")
	}
}

// FuzzSignature: no signature section passes for another than the one that was
// made, whatever it says.
func FuzzSignature(f *testing.F) {
	whole := signed(f)
	list := sectionsOf(f, whole)
	last := len(list) - 1
	f.Add(list[last].content)
	f.Add([]byte(`{"algorithm":"ed25519"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		own := slices.Clone(list)
		own[last].content = content
		file, err := Read(assembled(t, own))
		if err != nil {
			return
		}
		if err := file.SignedBy([]ed25519.PublicKey{public(testKey)}); err == nil && file.Verify() != nil {
			t.Errorf("a trusted signature of weights that are not those signed: %s", content)
		}
	})
}
