package onnx_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx/folder"
)

// FuzzFolder opens folders with any configuration next to a decoder, and builds the decoder: an error or a graph.
func FuzzFolder(f *testing.F) {
	decoder := model(13, graph(
		inputs(port("input_ids", int64s, "batch", "sequence"), port("attention_mask", int64s, "batch", "total"),
			port("past_key_values.0.key", float, "batch", 1, "past", 2),
			port("past_key_values.0.value", float, "batch", 1, "past", 2)),
		weights(floats("table", []float32{1, 2, 3, 4, 5, 6}, 3, 2), ints("axis", []int64{1}, 1)),
		nodes(node("Gather", names("table", "input_ids"), names("x")),
			node("Unsqueeze", names("x", "axis"), names("k")),
			node("Concat", names("past_key_values.0.key", "k"), names("present.0.key"), intAttr("axis", 2)),
			node("Concat", names("past_key_values.0.value", "k"), names("present.0.value"), intAttr("axis", 2)),
			node("Identity", names("x"), names("logits"))),
		outputs("logits", "present.0.key", "present.0.value")))
	f.Add([]byte(`{"max_position_embeddings": 8, "vocab_size": 3, "id2label": {"0": "a", "1": "b"}}`), []byte(``), []byte(``))
	f.Add([]byte(`{"num_hidden_layers": 1, "num_key_value_heads": 1, "hidden_size": 2}`),
		[]byte(`{"model": {"context_length": 8, "decoder": {"filename": "model.onnx", "inputs": {"input_ids": "input_ids",
			"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
			"outputs": {"logits": "logits", "present_key_names": "present.%d.key"}}}}`),
		[]byte(`{"pooling_mode_cls_token": true}`))
	f.Fuzz(func(t *testing.T, config, genai, pooling []byte) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "1_Pooling"), 0o777); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"model.onnx": decoder, "config.json": config,
			"genai_config.json": genai, filepath.Join("1_Pooling", "config.json"): pooling} {
			if len(content) == 0 {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		opened, err := folder.Open(dir)
		if err != nil {
			return
		}
		if _, err := opened.IsDecoder(); err != nil {
			return // another file name
		}
		for _, later := range []bool{false, true} {
			m, ports, err := opened.Build(4, 8, later)
			if err != nil {
				continue
			}
			if err := m.Graph.Verify(); err != nil {
				t.Errorf("a graph that is not right: %v", err)
			}
			if _, err := ports.Inputs(m.Graph, []int32{1, 2}, 3); err != nil {
				t.Errorf("the inputs of a run: %v", err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
