//go:build js && wasm

// Command js is vkc for JavaScript: vkc.mjs loads it as WebAssembly, and calls the functions that it sets in the object
// vkcModule. Programs run on the CPU. Files are in the module's own file system, which vkc.mjs keeps in memory.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall/js"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

func main() {
	js.Global().Get("vkcModule").Call("ready", map[string]any{
		"version": vkc.Version(),
		"load":    function(load),
		"open":    function(open),
	})
	select {} // functions are called as long as the page lives
}

// function makes a JavaScript function that returns a promise. f runs in a goroutine of its own, so it may wait.
func function(f func(args []js.Value) (any, error)) js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		var settle js.Func
		settle = js.FuncOf(func(_ js.Value, done []js.Value) any {
			go func() {
				defer settle.Release()
				if y, err := caught(f, args); err != nil {
					done[1].Invoke(js.Global().Get("Error").New(err.Error()))
				} else {
					done[0].Invoke(y)
				}
			}()
			return nil
		})
		return js.Global().Get("Promise").New(settle)
	})
}

// caught calls f. A panic of package js about a value of another type than expected becomes an error.
func caught(f func(args []js.Value) (any, error), args []js.Value) (y any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("wrong arguments: %v", p)
		}
	}()
	return f(args)
}

// await waits for a promise. Meanwhile the page runs: Go yields to it only while no goroutine can run.
func await(promise js.Value) js.Value {
	done := make(chan js.Value, 1)
	then := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- args[0]
		return nil
	})
	defer then.Release()
	promise.Call("then", then)
	return <-done
}

// absent reports whether a field or argument is left out.
func absent(v js.Value) bool { return v.IsUndefined() || v.IsNull() }

// object makes an object of functions that is released by its function close.
func object(fields map[string]any, closeAll func() error) map[string]any {
	var closing js.Func
	closing = function(func([]js.Value) (any, error) {
		for _, f := range fields {
			if f, ok := f.(js.Func); ok && !f.Equal(closing.Value) {
				f.Release()
			}
		}
		return nil, closeAll()
	})
	fields["close"] = closing
	return fields
}

// load loads the graph of a file, with the weights of another file if there is one: (path, weights or undefined).
func load(args []js.Value) (any, error) {
	g, weights, err := read(args[0].String(), args[1])
	if err != nil {
		return nil, err
	}
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		return nil, err
	}
	exe, err := dev.LoadGraph(context.Background(), g, weights.source)
	if err != nil {
		return nil, errors.Join(err, dev.Close(), weights.close())
	}
	ports := func(list []runtime.Port) []any {
		var out []any
		for _, p := range list {
			out = append(out, map[string]any{"name": p.Name, "type": p.Type.String()})
		}
		return out
	}
	fields := map[string]any{
		"inputs": ports(exe.Inputs()), "outputs": ports(exe.Outputs()),
		"run": function(func(args []js.Value) (any, error) { return run(exe, args[0]) }),
	}
	return object(fields, func() error { return errors.Join(exe.Close(), dev.Close(), weights.close()) }), nil
}

// openWeights are the weights of a graph, and the function that closes their file.
type openWeights struct {
	source ir.WeightSource
	close  func() error
}

// read reads a graph and its weights. The weights of an ONNX file are in it, or else in the file with path weights.
func read(path string, weights js.Value) (*ir.Graph, openWeights, error) {
	none := openWeights{nil, func() error { return nil }}
	if strings.HasSuffix(path, ".onnx") {
		f, err := onnx.Open(path, onnx.Options{})
		if err != nil {
			return nil, none, err
		}
		return f.Graph, openWeights{f, f.Close}, nil
	}
	g, err := vkc.ReadGraph(path)
	if err != nil || absent(weights) {
		return g, none, err
	}
	w, err := vkc.OpenWeights(weights.String())
	if err != nil {
		return nil, none, err
	}
	return g, openWeights{w, w.Close}, nil
}

// run runs a program on inputs by name, each with bytes and dims. dims may be undefined if the input has one shape.
func run(exe *vkc.Executable, inputs js.Value) (any, error) {
	in := vkc.Tensors{}
	for _, p := range exe.Inputs() {
		x := inputs.Get(p.Name)
		if absent(x) {
			continue // the program reports it, with all that are missing
		}
		var dims []int
		if list := x.Get("dims"); !absent(list) {
			for i := range list.Length() {
				dims = append(dims, list.Index(i).Int())
			}
		} else {
			var err error
			if dims, err = p.Type.Shape.Eval(nil); err != nil {
				return nil, fmt.Errorf("input %q: give {data, dims}, since its shape %s has symbols", p.Name, p.Type.Shape)
			}
		}
		size, err := ir.ByteSize(p.Type.DType, dims)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", p.Name, err)
		}
		if have := x.Get("bytes").Length(); int64(have) != size {
			return nil, fmt.Errorf("input %q: %s%v has %d bytes, and %d are given", p.Name, p.Type.DType, dims, size, have)
		}
		d, err := ir.NewData(p.Type.DType, dims...)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", p.Name, err)
		}
		js.CopyBytesToGo(d.Bytes, x.Get("bytes"))
		in[p.Name] = d
	}
	res, err := exe.Run(context.Background(), in)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, d := range res.Outputs {
		bytes := js.Global().Get("Uint8Array").New(len(d.Bytes))
		js.CopyBytesToJS(bytes, d.Bytes)
		dims := make([]any, len(d.Dims))
		for i, n := range d.Dims {
			dims[i] = n
		}
		out[name] = map[string]any{"dtype": d.DType.String(), "dims": dims, "bytes": bytes}
	}
	return out, nil
}

// open opens a language model: (path, options).
func open(args []js.Value) (any, error) {
	o := generate.Options{Device: "cpu"}
	number(args[1], "context", func(x float64) { o.Context = int(x) })
	m, err := generate.Open(context.Background(), args[0].String(), o)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{
		"context":  m.Context(),
		"generate": function(func(args []js.Value) (any, error) { return answer(m, args[0], args[1], args[2]) }),
	}
	return object(fields, m.Close), nil
}

// answer continues a prompt, or answers the last of a list of messages with role and content. It passes each piece of
// text to onText, which returns a promise of whether to go on.
func answer(m *generate.Model, prompt, options, onText js.Value) (any, error) {
	s := generate.Sampling{}
	for name, set := range map[string]func(x float64){
		"temperature": func(x float64) { s.Temperature = x },
		"topK":        func(x float64) { s.TopK = int(x) },
		"topP":        func(x float64) { s.TopP = &x },
		"minP":        func(x float64) { s.MinP = x },
		"seed":        func(x float64) { s.Seed = uint64(x) },
		"maxTokens":   func(x float64) { s.MaxTokens = int(x) },
	} {
		number(options, name, set)
	}
	tokens, err := promptOf(m, prompt)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for token, err := range m.Generate(context.Background(), tokens, s) {
		if err != nil {
			return nil, err
		}
		text.WriteString(token.Text)
		if !await(onText.Invoke(token.Text)).Bool() {
			break
		}
	}
	return text.String(), nil
}

// promptOf returns the tokens of a prompt: a text, or an array of messages with role and content.
func promptOf(m *generate.Model, prompt js.Value) ([]int32, error) {
	if prompt.Type() == js.TypeString {
		return m.Tokenizer().Encode(prompt.String(), tokenizer.Options{Whole: true}), nil
	}
	c := chat.Context{AddGenerationPrompt: true}
	for i := range prompt.Length() {
		c.Messages = append(c.Messages, chat.Message{Role: prompt.Index(i).Get("role").String(),
			Content: prompt.Index(i).Get("content").String()})
	}
	return m.Prompt(c)
}

// number calls set with a field of an object, if the object has it.
func number(object js.Value, name string, set func(x float64)) {
	if absent(object) {
		return
	}
	if v := object.Get(name); v.Type() == js.TypeNumber {
		set(v.Float())
	}
}
