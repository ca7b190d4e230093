package main

import (
	"testing"

	"github.com/vkc-go/vkc/frontend"
)

func TestBuilds(t *testing.T) {
	g, err := frontend.Build("mlp", mlp)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"f32[N,10]", "i32[N]"} {
		if out := g.Outputs()[i]; out.Node.Type().String() != want {
			t.Errorf("output %q is %s, want %s", out.Name, out.Node.Type(), want)
		}
	}
}
