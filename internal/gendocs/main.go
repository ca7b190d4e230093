// Command gendocs writes docs/OPS.md from the op table. Run it by
// `go generate ./ir`.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/vkc-go/vkc/ir"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("gendocs: ")
	out := flag.String("o", "docs/OPS.md", "file to write")
	flag.Parse()
	if err := os.WriteFile(*out, []byte(ir.OpsMarkdown()), 0o644); err != nil {
		log.Fatal(err)
	}
}
