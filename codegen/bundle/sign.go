package bundle

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/inputfile"
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

// The types of PEM blocks in key files: PKCS #8 and PKIX, the formats of openssl genpkey -algorithm ed25519.
const (
	privateBlock = "PRIVATE KEY"
	publicBlock  = "PUBLIC KEY"
	maxKeyFile   = 1 << 20
)

// ReadPrivateKey reads a private key that signs bundles.
func ReadPrivateKey(path string) (ed25519.PrivateKey, error) {
	blocks, err := readPEM(path, privateBlock)
	if err != nil {
		return nil, err
	}
	if len(blocks) != 1 {
		return nil, fmt.Errorf("key %s: %d private keys, want one", path, len(blocks))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(blocks[0])
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("key %s: a %T, want an Ed25519 key, as vkc keygen makes", path, parsed)
	}
	return key, nil
}

// ReadPublicKeys reads one or more public keys, for [File.SignedBy].
func ReadPublicKeys(path string) ([]ed25519.PublicKey, error) {
	blocks, err := readPEM(path, publicBlock)
	if err != nil {
		return nil, err
	}
	var keys []ed25519.PublicKey
	for i, block := range blocks {
		parsed, err := x509.ParsePKIXPublicKey(block)
		if err != nil {
			return nil, fmt.Errorf("keys %s: key %d: %w", path, i+1, err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("keys %s: key %d is a %T, want an Ed25519 key, as vkc keygen makes",
				path, i+1, parsed)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// readPEM returns the contents of all PEM blocks in a file. They must be of the given kind. Text around them is
// ignored.
func readPEM(path, kind string) ([][]byte, error) {
	rest, err := inputfile.ReadAtMost(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if len(rest) > maxKeyFile {
		return nil, fmt.Errorf("key %s: more than %d bytes", path, maxKeyFile)
	}
	var blocks [][]byte
	for {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if b.Type != kind {
			return nil, fmt.Errorf("key %s: it holds a %q, want a %q", path, clip(b.Type), kind)
		}
		blocks = append(blocks, b.Bytes)
	}
	if blocks == nil {
		return nil, fmt.Errorf("key %s: it holds no %q in PEM", path, kind)
	}
	return blocks, nil
}

// WriteKeys makes a new pair of signing keys. It writes the private key to path, readable by this user only, and the
// public key to path.pub. Neither file may exist yet.
func WriteKeys(path string) (key ed25519.PublicKey, err error) {
	defer bailout.Caught(&err)
	public, private, err := ed25519.GenerateKey(nil)
	bailout.Check(err)
	privateBytes, err := x509.MarshalPKCS8PrivateKey(private)
	bailout.Check(err)
	publicBytes, err := x509.MarshalPKIXPublicKey(public)
	bailout.Check(err)
	bailout.Check(writePEM(path, privateBlock, privateBytes, 0o600))
	if err := writePEM(path+".pub", publicBlock, publicBytes, 0o644); err != nil {
		os.Remove(path) // one key of a pair is useless
		return nil, err
	}
	return public, nil
}

// writePEM writes a new file with one PEM block of the given kind. It returns an error if the file exists.
func writePEM(path, kind string, content []byte, perm os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("key: %w: a key is not written over, so name another file", err)
	}
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	err = pem.Encode(f, &pem.Block{Type: kind, Bytes: content})
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("key %s: %w", path, err)
	}
	return nil
}
