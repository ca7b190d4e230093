//go:build race

package fast_test

import (
	"os"

	"github.com/vkc-go/vkc/internal/pairs"
)

// underRace reports whether the race detector runs, which makes the tests ten times as slow. It needs each way to share
// work once. So long tests have fewer cases with it, and all their cases in a run without it.
var underRace = os.Getenv(pairs.Env) != "all"
