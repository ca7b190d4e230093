// Package peer runs ONNX models with onnxruntime in a process of Node.
package peer

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/vkc-go/vkc/ir"
)

// Types has onnxruntime's names of dtypes.
var Types = map[ir.DType]string{ir.F32: "float32", ir.F64: "float64", ir.I64: "int64", ir.I32: "int32", ir.U8: "uint8",
	ir.I8: "int8", ir.Bool: "bool", ir.F16: "float16", ir.U16: "uint16", ir.I16: "int16", ir.U32: "uint32"}

// Write writes inputs to files in a folder.
func Write(in map[string]*ir.Data, folder string) (list []TensorFile, err error) {
	list = []TensorFile{}
	for name, d := range in {
		path := filepath.Join(folder, fmt.Sprintf("in-%d.bin", len(list)))
		if err := os.WriteFile(path, d.Bytes, 0o600); err != nil {
			return nil, err
		}
		list = append(list, TensorFile{Name: name, Type: Types[d.DType], Dims: append([]int{}, d.Dims...), File: path})
	}
	return list, nil
}

//go:embed peer.cjs
var script string

// Peer is onnxruntime in a process of Node.
type Peer struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// With starts onnxruntime and calls f with it and with an empty folder for files. It stops onnxruntime and removes the
// folder afterwards. folder is where node_modules/onnxruntime-node is.
func With(folder string, f func(p *Peer, scratch string) error) (err error) {
	scratch, err := os.MkdirTemp("", "vkc-onnxruntime-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	p, err := start(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	return f(p, scratch)
}

// Request asks the peer to load a model.
type Request struct {
	Load    string       `json:"load"`
	Threads int          `json:"threads"`
	Folder  string       `json:"folder"`
	Inputs  []TensorFile `json:"inputs"`
	Plain   bool         `json:"plain"` // without graph optimizations
}

// TensorFile is an input or output of a model.
type TensorFile struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Dims []int  `json:"dims"`
	File string `json:"file"`
}

// Answer is an answer of the peer.
type Answer struct {
	Error   string       `json:"error"`
	Outputs []TensorFile `json:"outputs"`
	Best    float64      `json:"best"`
	CPU     float64      `json:"cpu"`
}

// start starts a process of Node.js that runs onnxruntime from the folder.
func start(folder string) (*Peer, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	p := &Peer{command: exec.Command("node", "-e", script, "peer", folder)}
	p.command.Stderr = os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.command.Start()
}

// Ask sends a request and waits for the answer. Both are a line of JSON.
func (p *Peer) Ask(request any) (*Answer, error) {
	if err := json.NewEncoder(p.in).Encode(request); err != nil {
		return nil, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	var a Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, fmt.Errorf("onnxruntime: %s: %w", line, err)
	}
	if a.Error != "" {
		return nil, errors.New("onnxruntime: " + a.Error)
	}
	return &a, nil
}

// stop ends the peer.
func (p *Peer) stop() error {
	return errors.Join(p.in.Close(), p.command.Wait())
}
