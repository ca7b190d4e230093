package huggingface

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// splitClasses are the tokenizers that folders may have as vocab.json and merges.txt, in the form of GPT-2.
var splitClasses = []string{"GPT2Tokenizer", "WhisperTokenizer"}

// readVocabulary returns the tokenizer.json of a folder that has vocab.json, merges.txt and perhaps added_tokens.json
// instead. It returns nil if the folder has none of these. config is tokenizer_config.json.
func readVocabulary(folder string, config []byte) ([]byte, error) {
	vocabulary, err := read(folder, "vocab.json", maxTokenizer)
	if vocabulary == nil || err != nil {
		return nil, err
	}
	merges, err := read(folder, "merges.txt", maxTokenizer)
	if merges == nil || err != nil {
		return nil, err
	}
	var c struct {
		Class string `json:"tokenizer_class"`
	}
	if config != nil {
		if err := json.Unmarshal(config, &c); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	if !slices.Contains(splitClasses, strings.TrimSuffix(c.Class, "Fast")) {
		return nil, fmt.Errorf("there is no tokenizer.json, and vocab.json and merges.txt are of the class %q: want "+
			"one of %s, or tokenizer.json", c.Class, strings.Join(splitClasses, ", "))
	}
	var words map[string]int32
	if err := json.Unmarshal(vocabulary, &words); err != nil {
		return nil, fmt.Errorf("vocab.json: %w", err)
	}
	pairs := []string{}
	for line := range strings.Lines(string(merges)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#version") {
			continue
		}
		pairs = append(pairs, line)
	}
	added, err := addedTokens(folder, words)
	if err != nil {
		return nil, err
	}
	type object = map[string]any
	bytes := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	return json.Marshal(object{"added_tokens": added, "pre_tokenizer": bytes, "decoder": bytes,
		"model": object{"type": "BPE", "vocab": words, "merges": pairs}})
}

// addedTokens reads added_tokens.json: tokens with a name between <| and |> are special.
func addedTokens(folder string, words map[string]int32) ([]map[string]any, error) {
	data, err := read(folder, "added_tokens.json", maxTokenizer)
	if err != nil {
		return nil, err
	}
	more := map[string]int32{}
	if data != nil {
		if err := json.Unmarshal(data, &more); err != nil {
			return nil, fmt.Errorf("added_tokens.json: %w", err)
		}
	}
	const end = "<|endoftext|>" // which is in vocab.json
	if id, ok := words[end]; ok {
		more[end] = id
	}
	list := []map[string]any{}
	for name, id := range more {
		list = append(list, map[string]any{"id": id, "content": name,
			"special": strings.HasPrefix(name, "<|") && strings.HasSuffix(name, "|>")})
	}
	slices.SortFunc(list, func(a, b map[string]any) int { return int(a["id"].(int32)) - int(b["id"].(int32)) })
	return list, nil
}
