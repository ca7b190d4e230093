package bundle

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/inputfile"
)

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
