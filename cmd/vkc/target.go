package main

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/target"
)

// targetHelp describes the --target flag.
func targetHelp() string {
	return "what to compile for: auto (the best device here) or a profile (" + strings.Join(target.Profiles(), ", ") + ")"
}

// targetCaps returns what to compile for.
func targetCaps(want string) (target.Caps, error) {
	if !strings.EqualFold(want, "auto") {
		caps, err := target.Profile(want)
		if err != nil {
			return caps, usagef("--target: %w", err)
		}
		return caps, nil
	}
	dev, err := vkc.OpenDevice("auto")
	if err != nil {
		return target.Caps{}, err
	}
	defer dev.Close()
	if dev.IsReference() {
		return target.Caps{}, fmt.Errorf("there is no device for --target auto: %w; or name a profile: %s", dev.Fallback(), strings.Join(target.Profiles(), ", "))
	}
	return dev.Caps(), nil
}
