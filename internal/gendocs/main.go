// Command gendocs writes docs/OPS.md from the op table, from the result of compiling every op for every device profile,
// and from the measured errors of gradients. `go generate ./ir` runs it.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/vkc-go/vkc/ir"
)

// main writes docs/OPS.md.
func main() {
	log.SetFlags(0)
	log.SetPrefix("gendocs: ")
	out := flag.String("o", "docs/OPS.md", "file to write")
	flag.Parse()
	measured, err := gradients()
	if err != nil {
		log.Fatal(err)
	}
	where, err := backends()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*out, []byte(ir.OpsMarkdown()+where+measured), 0o644); err != nil {
		log.Fatal(err)
	}
}
