package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// Signatures have the form of minisign, so that its users can check them: minisign -Vm SHA256SUMS -p KEY.pub. The key
// file is vkc's own: 8 bytes of an id, and the seed of an Ed25519 key, in base64.

const idBytes = 8

// makeKey writes a new key to a file that only the user can read, and its public half to FILE.pub.
func makeKey(path string) error {
	raw := make([]byte, idBytes+ed25519.SeedSize)
	rand.Read(raw) // it never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, base64.StdEncoding.EncodeToString(raw))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.WriteFile(path+".pub", publicKey(raw), 0o644)
}

// publicKey returns the public half of a key as minisign's file.
func publicKey(raw []byte) []byte {
	key := ed25519.NewKeyFromSeed(raw[idBytes:])
	public := append(append([]byte("Ed"), raw[:idBytes]...), key.Public().(ed25519.PublicKey)...)
	return fmt.Appendf(nil, "untrusted comment: vkc releases\n%s\n", base64.StdEncoding.EncodeToString(public))
}

// readKey reads a key file.
func readKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != idBytes+ed25519.SeedSize {
		return nil, fmt.Errorf("%s is not a key: make one with -make-key", path)
	}
	return raw, nil
}

// sign returns minisign's signature of data. The comment is signed too.
func sign(raw, data []byte, comment string) []byte {
	key := ed25519.NewKeyFromSeed(raw[idBytes:])
	sum := blake2b.Sum512(data)
	signature := ed25519.Sign(key, sum[:])
	global := ed25519.Sign(key, append(bytes.Clone(signature), comment...))
	all := append(append([]byte("ED"), raw[:idBytes]...), signature...)
	return fmt.Appendf(nil, "untrusted comment: signature of a vkc release\n%s\ntrusted comment: %s\n%s\n",
		base64.StdEncoding.EncodeToString(all), comment, base64.StdEncoding.EncodeToString(global))
}

// verify checks a signature of data by the public half of a key.
func verify(public, data, signature []byte) error {
	line := func(text []byte, n int) ([]byte, error) {
		lines := strings.Split(string(text), "\n")
		if n >= len(lines) {
			return nil, errors.New("it has too few lines")
		}
		return base64.StdEncoding.DecodeString(lines[n])
	}
	key, err := line(public, 1)
	if err != nil || len(key) != 2+idBytes+ed25519.PublicKeySize {
		return errors.New("that is not a public key")
	}
	sig, err := line(signature, 1)
	if err != nil || len(sig) != 2+idBytes+ed25519.SignatureSize || string(sig[:2]) != "ED" {
		return errors.New("that is not a signature")
	}
	global, err := line(signature, 3)
	if err != nil {
		return err
	}
	scan := bufio.NewScanner(bytes.NewReader(signature))
	comment := ""
	for scan.Scan() {
		if text, ok := strings.CutPrefix(scan.Text(), "trusted comment: "); ok {
			comment = text
		}
	}
	sum := blake2b.Sum512(data)
	signed := sig[2+idBytes:]
	of := ed25519.PublicKey(key[2+idBytes:])
	switch {
	case !bytes.Equal(key[2:2+idBytes], sig[2:2+idBytes]):
		return errors.New("another key signed it")
	case !ed25519.Verify(of, sum[:], signed):
		return errors.New("the signature is wrong")
	case !ed25519.Verify(of, append(bytes.Clone(signed), comment...), global):
		return errors.New("the signature of the comment is wrong")
	}
	return nil
}

// sums writes the hashes of all files, and their signature if there is a key.
func (r *release) sums() error {
	var b bytes.Buffer
	for _, name := range r.made {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	if err := r.write("SHA256SUMS", b.Bytes()); err != nil || r.key == "" {
		return err
	}
	raw, err := readKey(r.key)
	if err != nil {
		return err
	}
	if err := r.write("vkc.pub", publicKey(raw)); err != nil {
		return err
	}
	return r.write("SHA256SUMS.minisig", sign(raw, b.Bytes(), "vkc "+r.version))
}
