// Command unreached lists the functions of packages that no command and no test reaches:
//
//	go run ./internal/lint/unreached ./...
package main

import (
	"fmt"
	"os"

	"github.com/vkc-go/vkc/internal/lint"
)

func main() {
	list, err := lint.Unreached(".", os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "unreached:", err)
		os.Exit(2)
	}
	for _, line := range list {
		fmt.Println(line)
	}
	if len(list) > 0 {
		os.Exit(1)
	}
}
