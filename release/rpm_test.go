package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// rpm is what readRPM finds in a package: texts of its header by tag, and its files.
type rpm struct {
	texts map[uint32][]string
	files map[string][]byte
}

// Tags of a header.
const (
	tagName, tagVersion, tagRequires = 1000, 1001, 1049
	tagRecommends, tagCompressor     = 5046, 1125
	tagPayloadDigest, tagHeaderSum   = 5092, 273 // SHA-256 in hex; the second is in the signature header
)

// readRPM reads a package in the RPM format, version 4, and checks its hashes.
func readRPM(data []byte) (p rpm, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the package is cut short: %v", r)
		}
	}()
	if !bytes.HasPrefix(data, []byte{0xed, 0xab, 0xee, 0xdb, 3}) {
		return p, errors.New("the lead is none of a package")
	}
	signature, n := rpmHeader(data[96:])
	at := 96 + (n+7)/8*8
	texts, n := rpmHeader(data[at:])
	header, payload := data[at:at+n], data[at+n:]
	for _, sum := range []struct {
		want []string
		of   []byte
	}{{signature[tagHeaderSum], header}, {texts[tagPayloadDigest], payload}} {
		if have := fmt.Sprintf("%x", sha256.Sum256(sum.of)); len(sum.want) != 1 || sum.want[0] != have {
			return p, fmt.Errorf("a hash is %s, want %v", have, sum.want)
		}
	}
	if c := texts[tagCompressor]; len(c) != 1 || c[0] != "gzip" {
		return p, fmt.Errorf("the payload is compressed with %v", c)
	}
	z, err := gzip.NewReader(bytes.NewReader(payload))
	if err != nil {
		return p, err
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return p, err
	}
	p = rpm{texts, map[string][]byte{}}
	for at := 0; ; { // cpio's "newc" form: 110 bytes of hex digits, the name, the file
		field := func(i int) int {
			n, err := strconv.ParseUint(string(plain[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				panic(err)
			}
			return int(n)
		}
		size, name := field(6), field(11)
		text := strings.TrimRight(string(plain[at+110:at+110+name]), "\x00")
		from := (at + 110 + name + 3) / 4 * 4
		if text == "TRAILER!!!" {
			return p, nil
		}
		p.files[strings.TrimPrefix(text, ".")] = plain[from : from+size]
		at = (from + size + 3) / 4 * 4
	}
}

// rpmHeader reads a header: its texts by tag, and its length. It panics if the header is cut short.
func rpmHeader(data []byte) (texts map[uint32][]string, length int) {
	number := func(at int) int { return int(binary.BigEndian.Uint32(data[at:])) }
	texts = map[uint32][]string{}
	entries, size := number(8), number(12)
	store := data[16+16*entries:][:size]
	for i := range entries {
		tag, kind, offset, count := number(16+16*i), number(20+16*i), number(24+16*i), number(28+16*i)
		if kind != 6 && kind != 8 && kind != 9 { // strings
			continue
		}
		for text := range strings.SplitSeq(string(store[offset:]), "\x00") {
			if count--; count < 0 {
				break
			}
			texts[uint32(tag)] = append(texts[uint32(tag)], text)
		}
	}
	return texts, 16 + 16*entries + size
}
