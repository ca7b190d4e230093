package onnx_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir/interp"
)

func runCase(c onnx.Case) (err error) {
	l, err := c.Load()
	if err != nil {
		return err
	}
	defer l.File.Close()
	p, err := interp.New(l.File.Graph, interp.Options{Weights: l.File})
	if err != nil {
		return err
	}
	out, err := p.Run(context.Background(), l.Inputs, nil)
	if err != nil {
		return err
	}
	for name, want := range l.Want {
		if err := onnx.Compare(out[name], want, 1e-3, 1e-7); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	return nil
}

func TestDev(t *testing.T) {
	dir := os.Getenv("ONNX_DEV")
	if dir == "" {
		t.Skip()
	}
	cases, err := onnx.Cases(dir)
	if err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(os.Getenv("ONNX_RE"))
	pass, fail := 0, 0
	why := map[string][]string{}
	for _, c := range cases {
		if !re.MatchString(c.Name) {
			continue
		}
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("PANIC %v", r)
					if os.Getenv("ONNX_PANIC") != "" {
						panic(r)
					}
				}
			}()
			return runCase(c)
		}()
		if err == nil {
			pass++
			continue
		}
		fail++
		s := err.Error()
		lines := strings.Split(s, "\n")
		key := lines[0]
		if len(lines) > 1 {
			key = lines[1]
		}
		if os.Getenv("ONNX_LONG") != "" {
			fmt.Println(c.Name, s)
		}
		if i := strings.Index(key, "("); i >= 0 && len(lines) > 1 {
			key = key[i:]
		}
		if len(key) > 170 {
			key = key[:170]
		}
		why[key] = append(why[key], c.Name)
	}
	var keys []string
	for k := range why {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return len(why[keys[i]]) > len(why[keys[j]]) })
	for _, k := range keys {
		fmt.Printf("%4d %s   %s\n", len(why[k]), k, why[k][0])
	}
	fmt.Println(pass, "passed", fail, "failed")
}
