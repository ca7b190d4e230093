package bundle

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/mmap"
)

// signature is the content of the signature section, the last section. It signs all other sections; see signedDigest.
type signature struct {
	Algorithm string `json:"algorithm"`
	PublicKey []byte `json:"public_key"`
	// WeightSums has the SHA-256 of each chunk of the weight data. The CRCs in the index detect damage but not forgery.
	// It is absent without weights.
	WeightSums []byte `json:"weight_sha256,omitempty"`
	Signature  []byte `json:"signature"`
}

// algorithm is the only supported algorithm. A signed message begins with signedPrefix, so that a signature that the
// same key made for another purpose is not valid for a bundle.
const (
	algorithm    = "ed25519"
	signedPrefix = "vkc bundle signature 1\n"
)

// signedDigest hashes all sections except the signature, in order. For each section it hashes the kind (uint32), the
// index (uint32) and the length (uint64), all little-endian, and the SHA-256 of the content. For weight data it hashes
// the SHA-256 of weightSums instead, which has the SHA-256 of each chunk. The lengths determine the sections'
// positions, and all padding is zero, so the digest covers the whole file except the signature.
func signedDigest(sections []Section, weightSums []byte) []byte {
	h := sha256.New()
	for _, s := range sections {
		switch s.Kind {
		case KindSignature:
			continue
		case KindData:
			s.SHA256 = sha256.Sum256(weightSums)
		}
		var b []byte
		b = binary.LittleEndian.AppendUint32(b, uint32(s.Kind))
		b = binary.LittleEndian.AppendUint32(b, uint32(s.Index))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.Length))
		h.Write(append(b, s.SHA256[:]...))
	}
	return h.Sum(nil)
}

// signedMessage returns the bytes that the signature signs.
func signedMessage(sections []Section, weightSums []byte) []byte {
	return append([]byte(signedPrefix), signedDigest(sections, weightSums)...)
}

// sign returns the signature of sections.
func sign(key ed25519.PrivateKey, sections []Section, weightSums []byte) signature {
	return signature{algorithm, key.Public().(ed25519.PublicKey), weightSums,
		ed25519.Sign(key, signedMessage(sections, weightSums))}
}

// check returns an error if the signature is not valid for the sections. It does not check who signed.
func (s *signature) check(sections []Section) error {
	chunks := int64(0)
	for _, section := range sections {
		if section.Kind == KindData {
			chunks = ceil.Div(section.Length, chunkSize)
		}
	}
	switch {
	case s.Algorithm != algorithm:
		return fmt.Errorf("the algorithm is %q, want %s", clip(s.Algorithm), algorithm)
	case len(s.PublicKey) != ed25519.PublicKeySize || len(s.Signature) != ed25519.SignatureSize:
		return fmt.Errorf("a key of %d bytes and a signature of %d, want %d and %d", len(s.PublicKey), len(s.Signature),
			ed25519.PublicKeySize, ed25519.SignatureSize)
	case int64(len(s.WeightSums)) != chunks*sha256.Size:
		return fmt.Errorf("%d bytes of checksums for %d chunks of weight data", len(s.WeightSums), chunks)
	case !ed25519.Verify(s.PublicKey, signedMessage(sections, s.WeightSums), s.Signature):
		return errors.New("the signature is not that of this content: the file was changed after it was signed")
	}
	return nil
}

// clip shortens a string from a file for an error message.
func clip(s string) string { return s[:min(len(s), 40)] }

// KeyName is a public key as text for people: the base64 of its bytes.
func KeyName(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// Signer returns the signer's public key, or nil if the bundle is not signed. Open has verified the signature. But
// anyone can sign, so also check the key: see [File.SignedBy].
func (f *File) Signer() ed25519.PublicKey {
	if f.content().signature == nil {
		return nil
	}
	return bytes.Clone(f.signature.PublicKey)
}

// SignedBy returns nil if the bundle is signed with one of the trusted keys. Weights are checked against the signature
// at their first use.
func (f *File) SignedBy(trusted []ed25519.PublicKey) error {
	if f == nil {
		return errNoFile
	}
	who := cmp.Or(f.src.Path, "the bundle")
	if f.signature == nil {
		return fmt.Errorf("vkb: %s is not signed, and only bundles signed with one of %d keys are trusted",
			who, len(trusted))
	}
	for _, key := range trusted {
		if key.Equal(ed25519.PublicKey(f.signature.PublicKey)) {
			return nil
		}
	}
	return fmt.Errorf("vkb: %s is signed with key %s, which is none of the %d trusted ones", who,
		KeyName(f.signature.PublicKey), len(trusted))
}

// Sign checks the bundle at path completely, signs it, and writes it to out, which may be the same path. It replaces an
// existing signature.
func Sign(path, out string, key ed25519.PrivateKey) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Verify(); err != nil {
		return err
	}
	err = mmap.Guard(func() error {
		return atomicfile.Write(out, 0o666, func(to *atomicfile.File) error { return f.copySigned(to, key) })
	})
	if err != nil {
		return fmt.Errorf("vkb: sign %s: %w", path, err)
	}
	return nil
}

// copySigned copies all sections except a signature, and writes a new signature.
func (f *File) copySigned(to sink, key ed25519.PrivateKey) error {
	w := &writer{to: to, sums: chunkSums{signed: true}}
	n := len(f.sections) + 1
	// The new signature takes the place of the old one.
	if f.signature != nil {
		n--
	}
	w.zeros(headSize(n))
	for _, s := range f.sections {
		content := f.mapping.Bytes()[s.Offset:s.end()]
		switch s.Kind {
		case KindSignature:
			continue
		case KindData:
			w.begin(s.Kind, s.Index)
			w.writeSummed(content)
			w.sums.finish()
			w.end()
		default:
			w.section(s.Kind, s.Index, content)
			// Another process may change the mapped file between Verify and here.
			if w.sections[len(w.sections)-1].SHA256 != s.SHA256 {
				return fmt.Errorf("section %s changed while it was read", s)
			}
		}
	}
	return w.finish(key)
}
